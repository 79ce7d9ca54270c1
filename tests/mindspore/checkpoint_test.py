"""Recompute: the same bits, each function run again once, and what must not run again does not."""

import collections
import contextlib
import dataclasses

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from models import (  # noqa: F401
    Block,
    bits,
    block,
    gradients,
    model,
    must_swap,
    recover,
    tensor,
    train,
    wrap_layers,
)

import restow
import restow.mindspore as rm

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Out:
    value: Tensor
    note: str


class Dropped(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = nn.Dense(8, 8)
        self.norm = nn.LayerNorm((8,))
        self.drop = nn.Dropout(p=0.4)

    def construct(self, x):
        y = self.drop(ops.gelu(self.inner(self.norm(x))))
        return x + ops.dropout(y, 0.25) * ops.uniform((4, 8), Tensor(0.5), Tensor(1.0))


def dropped_steps(way):
    """Losses and gradients of three steps with dropout, and what the random stream gives then."""
    ms.set_seed(7)
    cells = [Dropped().set_train() for _ in range(3)]
    weights = [p for cell in cells for p in cell.trainable_params()]

    def fn(x):
        for cell in cells:
            x = way(cell, x)
        return (x * x).sum()

    step = ms.value_and_grad(fn, 0, weights)
    seen = [bits(list(_flat(step(tensor(4, 8, seed=i))))) for i in range(3)]
    return seen, bits(ops.dropout(tensor(8, 8), 0.5)), bits(ms.get_rng_state())


def _flat(value):
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value


WAYS = {
    "checkpoint": rm.checkpoint,
    "values compared": lambda fn, x: rm.checkpoint(fn, x, determinism_check="values"),
    "to the end": lambda fn, x: rm.checkpoint(fn, x, early_stop=False),
    "inputs swapped": lambda fn, x: rm.checkpoint(fn, x, swap_inputs=True),
    "nested": lambda fn, x: rm.checkpoint(rm.checkpoint, fn, x),
    "nested twice": lambda fn, x: rm.checkpoint(rm.checkpoint, rm.checkpoint, fn, x),
    "swap of it": lambda fn, x: rm.swap(rm.checkpoint, fn, x, policy_fn=must_swap),
    "it of swap": lambda fn, x: rm.checkpoint(rm.swap, fn, x),
    "all of them": lambda fn, x: rm.checkpoint(rm.swap, rm.checkpoint, fn, x),
}


@pytest.mark.parametrize("name", list(WAYS))
def test_dropout_and_random_operators_are_equal_and_the_random_stream_is_unchanged(name):
    expected = dropped_steps(lambda cell, x: cell(x))
    rm.reset_stats()
    assert dropped_steps(WAYS[name]) == expected
    assert (rm.stats().recomputed_regions > 0) == (name != "it of swap")


def counted(calls):
    def fn(x):
        calls.append(rm.is_recomputing())
        return ops.tanh(x * x) * x

    return fn


def test_a_function_runs_again_once_in_backward_and_knows_it():
    calls = []
    assert gradients(lambda x: rm.checkpoint(counted(calls), x).sum(), tensor(3)) == gradients(
        lambda x: counted([])(x).sum(), tensor(3)
    )
    assert calls == [False, True]
    assert rm.get_recompute_state() is None


def test_the_state_inside_says_forward_or_rerun():
    states = []

    def fn(x):
        states.append(rm.get_recompute_state().is_recomputing)
        return x * x

    gradients(lambda x: rm.checkpoint(fn, x).sum(), tensor(3))
    assert states == [False, True]


def test_keyword_arguments_and_structures_of_any_kind_pass_through():
    def fn(first, *, table, flag=False):
        y = ops.tanh(first) * table["a"][0] * table["b"].left
        assert flag == "yes"
        return {"out": Out(y * y, "n"), "pair": Pair(y, None), "list": [y, (first, 3)]}

    def use(way):
        def run(x, z):
            got = way(fn, x, table={"a": [z], "b": Pair(z * 2, None)}, flag="yes")
            assert isinstance(got["pair"], Pair)
            assert isinstance(got["out"], Out)
            assert got["out"].note == "n"
            assert got["list"][1][1] == 3
            return (got["out"].value * got["pair"].left * got["list"][0]).sum()

        return gradients(run, tensor(4), tensor(4, seed=1))

    expected = use(lambda f, *a, **k: f(*a, **k))
    for way in (rm.checkpoint, rm.swap, lambda f, *a, **k: rm.checkpoint_wrapper(f)(*a, **k)):
        assert use(way) == expected


def test_weights_reached_by_closure_get_their_gradients():
    weight = Parameter(tensor(3), name="w")

    def fn(x):
        return ops.tanh(x * weight) * weight

    expected = gradients(lambda x: fn(x).sum(), tensor(3), weights=[weight])
    assert gradients(lambda x: rm.checkpoint(fn, x).sum(), tensor(3), weights=[weight]) == expected


def test_a_function_that_does_not_repeat_itself_is_an_error():
    for check, change in (
        ("default", lambda x, again: x[:2] if again else x),
        ("values", lambda x, again: x * 2 if again else x * 3),
    ):
        calls = []

        def fn(x, change=change, calls=calls):
            calls.append(1)
            return ops.tanh(change(x, len(calls) > 1))

        with pytest.raises(restow.NotDeterministic, match="did not repeat itself"):
            gradients(lambda x: rm.checkpoint(fn, x, determinism_check=check).sum(), tensor(3))
        recover()


def test_wrong_options_are_refused_before_anything_runs():
    for keywords in ({"determinism_check": "often"}, {"early_stop": 1}):
        with pytest.raises(restow.InputError, match=next(iter(keywords))):
            rm.checkpoint(ops.tanh, tensor(3), **keywords)
    with pytest.raises(TypeError, match="policy_fn"):
        rm.checkpoint(ops.tanh, tensor(3), policy_fn=3)


def test_the_contexts_of_context_fn_surround_forward_and_rerun():
    seen = []

    @contextlib.contextmanager
    def noted(name):
        seen.append(name)
        yield

    gradients(
        lambda x: rm.checkpoint(
            ops.tanh, x, context_fn=lambda: (noted("forward"), noted("rerun"))
        ).sum(),
        tensor(3),
    )
    assert seen == ["forward", "rerun"]


def test_an_exception_in_the_rerun_reaches_the_caller_and_leaves_nothing():
    calls = []

    def fn(x):
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("in the rerun")
        return ops.tanh(x)

    with pytest.raises(ValueError, match="in the rerun"):
        gradients(lambda x: rm.checkpoint(fn, x).sum(), tensor(3))
    recover()
    assert train(wrap_layers(model(), rm.checkpoint_wrapper)) == train(model())


# Per-operator policies.


def test_a_policy_keeps_the_operators_it_names_and_they_do_not_run_again():
    asked = []

    def policy(ctx, name, *args, **kwargs):
        asked.append((name, ctx.is_recompute))
        keep = name in ("Tanh", "MatMulExt", "MatMul")
        return rm.CheckpointPolicy.MUST_SAVE if keep else rm.CheckpointPolicy.PREFER_RECOMPUTE

    ran = []

    class Log(ms.utils.MsDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            ran.append(func.name)
            return func(*args, **(kwargs or {}))

    def fn(x):
        return ops.sin(ops.tanh(ops.matmul(x, x)) * x)

    expected = gradients(lambda x: fn(x).sum(), tensor(4, 4))
    assert gradients(lambda x: rm.checkpoint(fn, x, policy_fn=policy).sum(), tensor(4, 4)) == expected
    names = [name for name, _ in asked]
    assert len(names) == len(set(names)) >= 4, "once per operator of the forward"
    assert not any(again for _, again in asked)


SWAPPED_BY_NAME = {
    "alone": lambda fn, x, policy: rm.checkpoint(fn, x, policy_fn=policy),
    "inside a swapped region": lambda fn, x, policy: rm.swap(
        lambda t: rm.checkpoint(fn, t, policy_fn=policy), x
    ),
    "inside a checkpoint": lambda fn, x, policy: rm.checkpoint(
        lambda t: ops.sin(rm.checkpoint(fn, ops.tanh(t), policy_fn=policy)), x
    ),
    "with its inputs": lambda fn, x, policy: rm.checkpoint(
        fn, x, policy_fn=policy, swap_inputs=True
    ),
}


@pytest.mark.parametrize("way", list(SWAPPED_BY_NAME))
def test_a_policy_swaps_the_operators_it_names_and_they_do_not_run_again(way):
    rm.configure(keep_last_region=False)
    ran = []

    def policy(ctx, name, *args, **kwargs):
        swap = name in ("MatMulExt", "Dropout")
        return rm.CheckpointPolicy.MUST_SWAP if swap else rm.CheckpointPolicy.MUST_RECOMPUTE

    def fn(x):
        ran.append(rm.is_recomputing())
        return ops.dropout(ops.exp(ops.matmul(x, x)) * x, 0.25) * x

    def step(run):
        ms.set_seed(3)
        return gradients(lambda x: (run(x) ** 2).sum(), tensor(4, 4))

    with restow.disabled():
        plain = step(lambda x: SWAPPED_BY_NAME[way](fn, x, policy))
    ran.clear()
    rm.reset_stats()
    assert step(lambda x: SWAPPED_BY_NAME[way](fn, x, policy)) == plain
    assert ran.count(False) == 1
    assert True in ran
    swapped = [label for label, _, decision, _ in rm.explain() if decision == "swap"]
    # The product, and the dropout's result and mask.
    assert len(swapped) >= 3
    assert rm.stats().bytes_out >= 3 * 4 * 4 * 4


@pytest.mark.parametrize("answer", ["MUST_SAVE", None])
def test_an_answer_that_no_operator_policy_may_give_is_an_error_that_shows_it(answer):
    with pytest.raises(restow.Error, match=getattr(answer, "name", repr(answer))):
        gradients(
            lambda x: rm.checkpoint(ops.tanh, x, policy_fn=lambda *a, **k: answer).sum(), tensor(3)
        )
    recover()


# Excluded cells.


class Counted(Block):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def construct(self, x, *, extra=0.0):
        self.calls.append(1)
        return super().construct(x, extra=extra)


@pytest.mark.parametrize("around", [rm.checkpoint_wrapper, lambda c: rm.checkpoint_wrapper(
    c, swap_inputs=True)])
def test_an_excluded_cell_inside_a_checkpoint_runs_once(around):
    calls = []

    class Whole(nn.Cell):
        def __init__(self, wrap):
            super().__init__()
            self.first = nn.Dense(4, 4)
            self.once = wrap(Counted(calls))
            self.last = nn.Dense(4, 4)

        def construct(self, x):
            return self.last(ops.tanh(self.once(self.first(x))))

    def build(wrap):
        ms.set_seed(3)
        return Whole(wrap)

    expected = train(build(lambda cell: cell))
    plain, calls[:] = len(calls), []
    rm.reset_stats()
    assert train(around(build(rm.checkpoint_exclude_wrapper))) == expected
    assert rm.stats().recomputed_regions > 0
    assert len(calls) == plain


def test_a_chain_of_excluded_cells_need_not_keep_what_lies_between():
    def chain(wrap_first, wrap_second):
        ms.set_seed(3)
        first, second, last = block(), block(), nn.Dense(4, 4)
        a, b = wrap_first(first), wrap_second(second)
        weights = [p for cell in (first, second, last) for p in cell.trainable_params()]

        def fn(x):
            return last(b(a(ops.tanh(x)))).sum()

        return fn, weights

    fn, weights = chain(lambda c: c, lambda c: c)
    expected = gradients(fn, tensor(5, 4), weights=weights)
    fn, weights = chain(
        lambda c: rm.checkpoint_exclude_wrapper(c, save_output=False),
        rm.checkpoint_exclude_wrapper,
    )
    got = gradients(lambda x: rm.checkpoint(fn, x), tensor(5, 4), weights=weights)
    assert got == expected


def test_automatic_precision_of_the_forward_is_that_of_the_rerun():
    def build(wrap):
        ms.set_seed(1)
        whole = nn.SequentialCell(wrap(nn.SequentialCell(nn.Dense(4, 4), nn.GELU())), nn.Dense(4, 4))
        return ms.amp.auto_mixed_precision(whole, "auto", ms.float16)

    def run(whole):
        return gradients(lambda x: whole(x).astype(ms.float32).sum(), tensor(3, 4))

    assert run(build(rm.checkpoint_wrapper)) == run(build(lambda cell: cell))


# The manager.


def test_the_manager_steers_a_chain_and_the_last_layer_is_left_alone():
    whole = wrap_layers(model(), lambda c: rm.swap_wrapper(c, must_swap))
    manager = rm.SwapManager()
    assert rm.SwapManager() is manager
    names = []
    for first, second in zip(whole.layers[:-1], whole.layers[1:], strict=True):
        manager.set_forward_prefetch_layer(first, second)
    whole.layers[0].unwrap_cell.fc1.register_forward_pre_hook(
        lambda *a: names.append(manager.get_current_group_name())
    )
    plain = train(model())
    rm.reset_stats()
    assert train(whole) == plain
    assert names[0].startswith("swap_group_")
    assert not manager.is_last_group(names[0])
    assert rm.stats().bytes_out > 0
    last = [row for row in rm.explain() if row[0].startswith("swap_group")]
    assert {row[2] for row in last} == {"swap", "keep"}
    with pytest.raises(restow.InputError, match="itself"):
        manager.set_forward_prefetch_layer(whole.layers[0], whole.layers[0])
    with pytest.raises(restow.InputError, match="partner"):
        manager.set_forward_prefetch_layer(whole.layers[0], whole.layers[2])


def test_a_wait_without_a_launch_and_an_unknown_group_are_errors():
    manager = rm.SwapManager()
    for call in (manager.wait_load, manager.launch_load, manager.launch_offload):
        with pytest.raises(restow.Error):
            call("nobody opened it")


def test_get_rng_state_is_a_tensor():
    assert isinstance(ms.get_rng_state(), Tensor)
    assert np.asarray(ms.get_rng_state().asnumpy()).size > 0


def kinds_of_ends():
    """Functions whose last saved tensor is saved while its operator runs, and after it."""
    norm, embed = nn.LayerNorm((4,)), nn.Embedding(5, 4)
    where = Tensor([1, 4, 2, 2, 0], ms.int32)
    return {
        "layer norm": (lambda x: norm(x * 2), norm.trainable_params()),
        "embedding": (lambda x: x + embed(where), embed.trainable_params()),
        "dropout": (lambda x: ops.dropout(ops.tanh(x), 0.3), None),
        "product": (lambda x: x * x, None),
    }


@pytest.mark.parametrize("end", list(kinds_of_ends()))
@pytest.mark.parametrize("early_stop", [True, False])
def test_a_checkpoint_may_end_with_any_kind_of_operator(end, early_stop):
    fn, weights = kinds_of_ends()[end]

    def step(run):
        ms.set_seed(3)
        return gradients(lambda x: (ops.tanh(run(x)) ** 2).sum(), tensor(5, 4), weights=weights)

    plain = step(fn)
    assert step(lambda x: rm.checkpoint(fn, x, early_stop=early_stop)) == plain


def dropped(x):
    return ops.dropout(x * x, 0.25)


NESTED = {
    "after another operator": lambda x: rm.checkpoint(dropped, ops.tanh(x)),
    "its inputs swapped": lambda x: rm.checkpoint(dropped, ops.tanh(x), swap_inputs=True),
    "one after the other": lambda x: rm.checkpoint(dropped, rm.checkpoint(dropped, x)),
    "the second's inputs swapped": lambda x: rm.checkpoint(
        dropped, rm.checkpoint(dropped, x), swap_inputs=True
    ),
    "the first's inputs swapped": lambda x: rm.checkpoint(
        dropped, rm.checkpoint(dropped, x, swap_inputs=True)
    ),
}


@pytest.mark.parametrize("nested", list(NESTED))
@pytest.mark.parametrize("swap_inputs", [False, True])
def test_random_operators_in_nested_checkpoints_run_once(nested, swap_inputs):
    body = NESTED[nested]

    def step(run):
        ms.set_seed(3)
        return gradients(lambda x: (run(x) ** 2).sum(), tensor(5, 4))

    with restow.disabled():
        plain = step(body)
    assert step(lambda x: rm.checkpoint(body, x, swap_inputs=swap_inputs)) == plain


def test_inputs_moved_within_a_checkpoint_do_not_shift_what_its_rerun_makes():
    def body(x):
        y = rm.checkpoint(ops.tanh, x * 2, swap_inputs=True)
        return rm.checkpoint(lambda z: z * z * z, y * 3)

    with restow.disabled():
        plain = gradients(lambda x: body(x).sum(), tensor(5, 4))
    assert gradients(lambda x: rm.checkpoint(body, x).sum(), tensor(5, 4)) == plain


def test_a_rerun_that_saves_for_another_operator_is_an_error():
    def fn(x):
        return ops.tanh(x) * 2 if not rm.is_recomputing() else ops.sigmoid(x) * 2

    with pytest.raises(restow.NotDeterministic, match="Sigmoid.*Tanh"):
        gradients(lambda x: rm.checkpoint(fn, x).sum(), tensor(5, 4))
    recover()
