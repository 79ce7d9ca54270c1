"""Swapped regions: what moves, what stays, the same bits, and nothing left behind."""

import copy
import gc

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from models import (  # noqa: F401
    BODIES,
    Block,
    PassThrough,
    bits,
    block,
    gradients,
    model,
    must_save,
    must_swap,
    recover,
    tensor,
    train,
    wrap_layers,
)

import restow
import restow.mindspore as rm
from restow.mindspore import _engine, _settings


def swap_all(target):
    return rm.swap_wrapper(target, must_swap)


def nested(whole):
    """A swap inside a swap and inside a checkpoint, formed by later assignment."""
    for index, wrap in enumerate((swap_all, rm.checkpoint_wrapper, swap_all)):
        whole.layers[index] = wrap(whole.layers[index])
    for layer in whole.layers:
        within = swap_all(nn.Dense(4, 4))
        for name in ("weight", "bias"):
            getattr(within, name).set_data(getattr(layer.fc1, name).value())
        layer.fc1 = within
    return whole


def mixed(whole):
    whole.layers[0] = swap_all(whole.layers[0])
    whole.layers[1] = rm.checkpoint_wrapper(whole.layers[1], swap_inputs=True)
    whole.layers[2].fc1 = rm.checkpoint_wrapper(whole.layers[2].fc1)
    return whole


WHOLES = {
    "swap": lambda whole: wrap_layers(whole, swap_all),
    "swap, group": lambda whole: wrap_layers(whole, lambda m: rm.swap_wrapper(m, None, True)),
    "checkpoint": lambda whole: wrap_layers(whole, rm.checkpoint_wrapper),
    "both": lambda whole: wrap_layers(whole, lambda m: rm.checkpoint_wrapper(m, swap_inputs=True)),
    "exclude": lambda whole: wrap_layers(whole, rm.checkpoint_exclude_wrapper),
    "own": lambda whole: wrap_layers(whole, PassThrough),
    "mixed": mixed,
    "nested": nested,
    "root": swap_all,
}


@pytest.mark.parametrize("name", list(WHOLES))
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_training_through_wrappers_is_bit_identical(name, micro_batches):
    expected = train(model(), micro_batches=micro_batches)
    rm.reset_stats()
    assert train(WHOLES[name](model()), micro_batches=micro_batches) == expected
    stats = rm.stats()
    assert (stats.bytes_out > 0) == (name not in ("checkpoint", "exclude", "own"))
    assert (stats.recomputed_regions > 0) == (name in ("checkpoint", "both", "mixed", "nested"))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("checks", [True, False])
def test_any_tensor_comes_back_with_the_same_bits(body, checks):
    rm.configure(check_changes=checks)
    x = tensor(4, 4)
    expected = gradients(body, x)
    assert gradients(lambda x: rm.swap(body, x, policy_fn=must_swap), x) == expected
    assert rm.stats().bytes_out > 0


def test_one_storage_that_is_saved_twice_in_a_row_moves_once():
    rm.configure(min_bytes="1MiB")

    gradients(lambda x: rm.swap(lambda x: (x * x).sum(), x), tensor(512, 512))
    saves = [row for row in rm.explain() if row[1] == 1 << 20]
    assert len(saves) == 2
    assert rm.stats().bytes_out == 1 << 20


def test_grad_of_grad_is_bit_identical():
    def body(x):
        return (ops.tanh(x) * x * x).sum()

    def twice(fn):
        return bits(ms.grad(ms.grad(fn))(tensor(5)))

    for way in (
        lambda x: rm.swap(body, x, policy_fn=must_swap),
        lambda x: rm.checkpoint(body, x, early_stop=False),
        lambda x: rm.checkpoint(body, x),
    ):
        assert twice(way) == twice(body)


def test_inference_passes_open_no_region_and_change_nothing():
    whole = wrap_layers(model(), swap_all)
    x = tensor(5, 4)
    assert bits(whole(x)) == bits(model()(x))
    assert rm.stats().units == rm.stats().bytes_out == 0
    assert rm.explain() == []


def test_a_forward_that_is_never_differentiated_leaves_nothing():
    whole = wrap_layers(model(), swap_all)

    def fn(x):
        whole(x)
        return (x * x).sum()

    gradients(fn, tensor(5, 4))
    gc.collect()
    assert rm.stats().slots == 0


class Boom(Exception):
    pass


def failing(where):
    """A layer, or its wrapper, that fails there."""

    class Fails(Block):
        def construct(self, x, *, extra=0.0):
            y = super().construct(x, extra=extra)
            if where == "construct":
                raise Boom(where)
            return y

    def policy(t):
        if where == "policy":
            raise Boom(where)
        return rm.CheckpointPolicy.MUST_SWAP

    return rm.swap_wrapper(Fails(), policy)


@pytest.mark.parametrize("where", ["construct", "policy", "pack", "unpack"])
def test_exceptions_leave_nothing_behind_and_the_next_step_is_right(where, monkeypatch):
    whole = model()
    whole.layers[1] = failing(where)
    target = {"pack": (_engine.Region, "pack"), "unpack": (_engine.Slot, "unpack")}.get(where)
    with monkeypatch.context() as patch:
        if target is not None:
            patch.setattr(*target, lambda *a, **k: (_ for _ in ()).throw(Boom(where)))
        with pytest.raises(Boom, match=where):
            gradients(lambda x: whole(x).sum(), tensor(5, 4))
    recover()
    gc.collect()
    assert rm.stats().slots == 0
    fine = wrap_layers(model(), swap_all)
    assert train(fine) == train(model())


@pytest.mark.parametrize("answer", ["MUST_SAVE", 1, None, *list(rm.CheckpointPolicy)[1:4]])
def test_any_other_answer_of_a_policy_is_an_error_that_shows_it(answer):
    shown = getattr(answer, "name", repr(answer))
    with pytest.raises(restow.Error, match=shown):
        gradients(lambda x: rm.swap(ops.tanh, x, policy_fn=lambda t: answer).sum(), tensor(3))
    recover()


def test_a_policy_is_asked_once_per_pack_of_an_eligible_tensor_and_never_for_others():
    asked, packed = [], []
    weight = Parameter(tensor(4, 4), name="w")

    def body(x):
        y = ops.matmul(x, weight)
        return (y * y * weight[:1]).sum()

    def count(t):
        packed.append(t)
        return ops.stop_gradient(t)

    def plain(x):
        with ms.saved_tensors_hooks(count, lambda t: t):
            return body(x)

    def policy(t):
        asked.append(t.untyped_storage().data_ptr())
        return rm.CheckpointPolicy.MUST_SWAP

    ms.grad(plain)(tensor(2, 4))
    own = weight.untyped_storage().data_ptr()
    eligible = [t for t in packed if t.untyped_storage().data_ptr() != own]
    gradients(lambda x: rm.swap(body, x, policy_fn=policy), tensor(2, 4))
    assert len(asked) == len(eligible) > 0
    assert own not in asked


def test_a_policys_word_beats_the_threshold():
    rm.configure(min_bytes="1MiB")
    x = tensor(8, 8)
    gradients(lambda x: rm.swap(ops.tanh, x).sum(), x)
    assert rm.stats().bytes_out == 0
    gradients(lambda x: rm.swap(ops.tanh, x, policy_fn=must_swap).sum(), x)
    assert rm.stats().bytes_out > 0


def test_a_storage_of_which_a_view_is_to_be_saved_stays():
    turn = iter(range(100))

    def policy(t):
        return (must_swap, must_save)[next(turn) % 2](t)

    def body(x):
        y = ops.tanh(x)
        return (y * y).sum()

    gradients(lambda x: rm.swap(body, x, policy_fn=policy), tensor(8, 8))
    assert next(turn) > 1
    # The write that the first word began was given up for the second, or is the only traffic.
    assert rm.stats().bytes_in == 0


@pytest.mark.parametrize("view", [lambda w: w, lambda w: w[1:3], lambda w: w.reshape(2, 8)])
def test_parameters_and_their_views_never_move(view):
    cell = nn.Dense(4, 4)
    asked = []

    def policy(t):
        asked.append(t.untyped_storage().data_ptr())
        return rm.CheckpointPolicy.MUST_SWAP

    def way(x):
        def body(x):
            part = view(cell.weight)
            return (x.sum() * part * part).sum()

        return rm.swap(body, x, policy_fn=policy)

    gradients(way, tensor(4, 4), weights=cell.trainable_params())
    assert asked
    assert cell.weight.untyped_storage().data_ptr() not in asked


def test_base_check_fn_says_what_may_be_swapped_at_all():
    weight = Parameter(tensor(4, 4), name="w")
    assert rm.base_check_fn(tensor(3))
    assert rm.base_check_fn(tensor(1))
    assert not rm.base_check_fn(weight)
    assert not rm.base_check_fn("tensor")
    assert not rm.base_check_fn(Tensor(np.zeros((0, 3), np.float32)))

    def inside(x):
        assert not rm.base_check_fn(weight.reshape(-1))
        assert not rm.base_check_fn(weight.t())
        return x * weight

    gradients(lambda x: rm.swap(inside, x).sum(), tensor(4, 4))


# Changes in place.


def changed(x, way):
    kept = []

    def body(x):
        y = ops.tanh(x)
        kept.append(ops.stop_gradient(y))
        return y * y

    z = way(body, x)
    kept[0].asnumpy()[...] += 1
    return z.sum()


@pytest.mark.parametrize("mode", ["swap", "keep"])
def test_a_saved_tensor_that_is_changed_in_place_is_an_error(mode):
    def way(body, x):
        with rm.region(mode, policy_fn=must_save if mode == "swap" else None):
            return body(x)

    with pytest.raises(restow.ModifiedInPlace, match="in place"):
        gradients(lambda x: changed(x, way), tensor(64, 64))
    recover()


def test_a_tensor_changed_and_saved_again_comes_back_as_it_was_then():
    def body(x):
        y = x * 2
        a = ops.tanh(y)
        b = a * 3
        return (b * b).sum()

    x = tensor(64, 64)
    assert gradients(lambda x: rm.swap(body, x, policy_fn=must_swap), x) == gradients(body, x)


# Refusals and switches.


def test_swap_without_a_file_tier_is_refused_with_the_remedy():
    _settings.restore(_settings.Settings())
    for way in (
        lambda x: rm.swap(ops.tanh, x).sum(),
        lambda x: rm.swap_wrapper(nn.Tanh())(x).sum(),
        lambda x: rm.checkpoint(ops.tanh, x, swap_inputs=True).sum(),
    ):
        with pytest.raises(restow.Unsupported, match=r"file_dir.*restow\.disabled"):
            gradients(way, tensor(3))
        recover()
    with pytest.raises(restow.Unsupported, match="file_dir"):
        gradients(lambda x: _in_region(x), tensor(3))
    recover()


def _in_region(x):
    with rm.region("swap"):
        return (x * x).sum()


def test_disabled_turns_every_wrapper_into_a_plain_call():
    whole = mixed(model())
    with restow.disabled():
        assert train(whole) == train(model())
    assert rm.stats().bytes_out == rm.stats().recomputed_regions == 0


@pytest.mark.parametrize("make", [swap_all, rm.checkpoint_wrapper, rm.checkpoint_exclude_wrapper])
def test_jit_refuses_a_wrapper_with_a_readable_text(make):
    wrapper = make(nn.Tanh())

    @ms.jit
    def compiled(x):
        return wrapper(x)

    with pytest.raises(RuntimeError, match=r"cannot be compiled.*cell\.recompute"):
        compiled(tensor(3))
    # MindSpore's parser holds what it compiled.
    rm.unwrap(wrapper)


def test_graph_mode_is_refused_at_the_first_call():
    wrapper = swap_all(nn.Tanh())
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        for call in (
            lambda: wrapper(tensor(3)),
            lambda: rm.swap(ops.tanh, tensor(3)),
            lambda: rm.checkpoint(ops.tanh, tensor(3)),
            lambda: rm.region("swap").__enter__(),
        ):
            with pytest.raises(restow.Unsupported, match=r"PyNative.*cell\.recompute"):
                call()
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_what_is_not_available_says_so_by_name():
    for call, name in (
        (lambda: rm.region("recompute"), "checkpoint"),
        (lambda: rm.fit(None), "fit"),
        (lambda: rm.ignore_sac_ops([]), "ignore_sac_ops"),
        (lambda: rm.create_selective_checkpoint_contexts([]), "create_selective"),
        (lambda: rm.checkpoint(ops.tanh, tensor(3), use_reentrant=True), "use_reentrant"),
    ):
        with pytest.raises(restow.Unsupported, match=name):
            call()


def test_a_full_file_tier_keeps_the_tensor_and_training_goes_on():
    rm.configure(file_cap="4KiB")
    whole = wrap_layers(model(), swap_all)
    assert train(whole) == train(model())
    assert rm.stats().tier_errors > 0


def test_a_trace_is_written_for_perfetto(tmp_path):
    import json

    with rm.trace(tmp_path / "t.json"):
        train(wrap_layers(model(), swap_all))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {e["name"].split("::")[0].split("#")[0] for e in events if e["ph"] == "X"} == {"Block"}
    assert {e["tid"] for e in events if e["ph"] == "X"} == {1, 2}
    with pytest.raises(restow.InputError, match="folder"), rm.trace(tmp_path / "no" / "t.json"):
        pass


def test_a_deep_copied_wrapper_swaps_on_its_own():
    whole = swap_all(block())
    twin = copy.deepcopy(whole)
    x = tensor(5, 4)
    weights = list(twin.trainable_params())
    got = gradients(lambda x: twin(x).sum(), x, weights=weights)
    plain = block()
    assert got == gradients(lambda x: plain(x).sum(), x, weights=plain.trainable_params())


def test_a_tensor_that_comes_back_prints_nothing(capfd):
    x = tensor(4, 4)
    gradients(lambda x: rm.swap(lambda t: (t * t).sum(), x, policy_fn=must_swap), x)
    assert rm.stats().bytes_out > 0
    assert capfd.readouterr().err == ""
