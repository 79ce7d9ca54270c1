"""Construction of wrappers, what they hold, and taking them out again."""

import functools
import gc

import pytest

from mindspore import nn, ops
from models import (  # noqa: F401
    Block,
    Callable,
    PassThrough,
    bits,
    block,
    model,
    tensor,
    wrap,
    wrap_layers,
)

import restow
import restow.mindspore as rm
from restow.mindspore import _overlap


def test_each_function_returns_its_kind_of_activation_wrapper():
    kinds = {
        rm.SwapWrapper: rm.swap_wrapper(block()),
        rm.CheckpointWrapper: rm.checkpoint_wrapper(block()),
    }
    for kind, wrapper in kinds.items():
        assert type(wrapper) is kind
        assert isinstance(wrapper, rm.ActivationWrapper)
        assert isinstance(wrapper, nn.Cell)
    assert isinstance(rm.checkpoint_exclude_wrapper(block()), rm.ActivationWrapper)
    assert rm.ckpt_wrapper is rm.checkpoint_wrapper


def test_policy_fn_and_group_swap_stay_readable_and_writable_attributes():
    for wrapper in (
        rm.swap_wrapper(block(), len, True),
        rm.swap_wrapper(block(), policy_fn=len, group_swap=True),
        rm.checkpoint_wrapper(block(), policy_fn=len, group_swap=True),
    ):
        inner = wrapper.unwrap_cell
        assert (wrapper.policy_fn, wrapper.group_swap) == (len, True)
        wrapper.policy_fn = max
        wrapper.group_swap = False
        assert (wrapper.policy_fn, wrapper.group_swap) == (max, False)
        assert not hasattr(inner, "policy_fn")
        assert not hasattr(inner, "group_swap")


def test_checkpoint_wrapper_takes_the_keywords_of_checkpoint_and_no_other():
    keywords = {
        "policy_fn": None,
        "swap_inputs": True,
        "context_fn": None,
        "preserve_rng_state": False,
        "determinism_check": "none",
        "early_stop": False,
        "group_swap": True,
        "cpu_pool": None,
    }
    wrapper = rm.checkpoint_wrapper(block(), **keywords)
    assert {name: getattr(wrapper, name) for name in keywords} == keywords
    inner = block()
    with pytest.raises(TypeError, match="use_rentrant"):
        rm.checkpoint_wrapper(inner, use_rentrant=False)
    rm.checkpoint_wrapper(inner)


@pytest.mark.parametrize("answer", [0, None, "yes"])
def test_save_output_is_a_bool(answer):
    with pytest.raises(ValueError, match="save_output"):
        rm.checkpoint_exclude_wrapper(block(), save_output=answer)
    assert rm.checkpoint_exclude_wrapper(block(), save_output=False).save_output is False


def give_back(*args, **kwargs):
    return args, kwargs


@pytest.mark.parametrize(
    "fn", [give_back, lambda *a, **k: (a, k), functools.partial(give_back), print, Callable()]
)
def test_a_plain_callable_becomes_a_func_cell_without_parameters(wrap, fn):
    inner = wrap(fn).unwrap_cell
    assert type(inner) is rm.FuncCell
    assert inner._fn is fn
    assert list(inner.get_parameters()) == []
    assert list(inner.buffers()) == []
    assert inner.state_dict() == {}


def test_positional_and_keyword_arguments_and_the_result_pass_through_unchanged():
    marker, result = object(), object()
    seen = []

    def fn(*args, **kwargs):
        seen.append((args, kwargs))
        return result

    for outer in (rm.FuncCell(fn), PassThrough(fn)):
        assert outer(1, marker, key=marker, fn=2, self_=3) is result
        assert seen.pop() == ((1, marker), {"key": marker, "fn": 2, "self_": 3})


@pytest.mark.parametrize("thing", [3, None, "module", ops.zeros((1,)), [nn.Dense(1, 1)]])
def test_what_is_neither_module_nor_callable_is_a_type_error_naming_its_type(wrap, thing):
    with pytest.raises(TypeError, match=rf"\b{type(thing).__name__}\b"):
        wrap(thing)


def test_func_cell_refuses_what_cannot_be_called():
    with pytest.raises(TypeError, match="int"):
        rm.FuncCell(3)


def test_activation_wrapper_made_directly_says_what_to_override():
    with pytest.raises(TypeError, match=r"construct"):
        rm.ActivationWrapper(block())


def test_a_subclass_without_a_forward_of_its_own_says_what_to_override():
    class Lazy(rm.ActivationWrapper):
        pass

    inner = block()
    with pytest.raises(TypeError, match=r"Lazy.*construct"):
        Lazy(inner)
    rm.swap_wrapper(inner)


def test_users_may_subclass_the_base():
    wrapper = PassThrough(block())
    x = tensor(2, 4)
    assert bits(wrapper(x)) == bits(block()(x))
    assert wrapper.calls == 1
    assert not hasattr(wrapper.unwrap_cell, "calls")


def test_a_subclass_of_a_subclass_inherits_its_forward():
    class Twice(PassThrough):
        pass

    assert Twice(block())(tensor(2, 4)).shape == (2, 4)


def test_wrapping_renames_nothing_and_changes_no_flag_dtype_or_device(wrap):
    whole = model().set_train()
    whole.layers[1].set_train(False)
    whole.layers[0].fc1.weight.requires_grad = False

    def portrait(module):
        return (
            [
                (n, p.name, p.requires_grad, p.dtype, p.is_init, id(p))
                for n, p in module.parameters_and_names()
            ],
            [(n, b.dtype, id(b)) for n, b in module.named_buffers()],
            {n: m.training for n, m in module.cells_and_names()},
        )

    before = portrait(whole)
    wrap_layers(whole, wrap)
    assert portrait(whole) == before


def test_nothing_is_written_onto_users_objects(wrap):
    def attributes(module):
        return [
            {n: (id(v), dict(v) if isinstance(v, dict) else None) for n, v in vars(m).items()}
            for _, m in module.cells_and_names()
        ]

    inner, partial = block(), functools.partial(give_back)
    before, of_the_class = attributes(inner), dict(vars(Block))
    inner_wrapper, function_wrapper, partial_wrapper = wrap(inner), wrap(give_back), wrap(partial)
    assert attributes(inner) == before
    assert vars(give_back) == {}
    assert vars(partial) == {}
    assert dict(vars(Block)) == of_the_class
    del inner_wrapper, function_wrapper, partial_wrapper


def test_a_thousand_wraps_and_unwraps_leave_the_table_empty(wrap):
    before = _overlap.entries()
    inner, partial, slotted = block(), functools.partial(give_back), Callable()
    for _ in range(1000):
        for target in (inner, partial, slotted):
            rm.unwrap(wrap(target))
    assert _overlap.entries() == before


def test_an_entry_lives_as_long_as_its_wrapper(wrap):
    before = _overlap.entries()
    slotted = Callable()
    wrapper = wrap(slotted)
    assert _overlap.entries() > before
    with pytest.raises(restow.Overlap):
        wrap(slotted)
    del wrapper
    gc.collect()
    assert _overlap.entries() == before
    wrap(slotted)


def test_a_wrapper_in_a_reference_cycle_leaves_the_table_when_collected():
    before = _overlap.entries()
    inner = block()
    wrapper = PassThrough(inner)
    wrapper.calls = wrapper
    del wrapper
    gc.collect()
    assert _overlap.entries() == before
    PassThrough(inner)


def test_a_wrapper_that_failed_to_be_built_leaves_nothing():
    class Broken(PassThrough):
        def __init__(self, module):
            super().__init__(module)
            raise RuntimeError("no")

    before, inner = _overlap.entries(), block()
    with pytest.raises(RuntimeError, match="no"):
        Broken(inner)
    gc.collect()
    assert _overlap.entries() == before


def test_the_inner_module_is_reachable_under_three_names(wrap):
    inner = block()
    wrapper = wrap(inner)
    assert wrapper._ckpt_wrapped_module is inner
    assert wrapper._wrapped_module is inner
    assert wrapper.unwrap_cell is inner


def test_the_inner_module_cannot_be_replaced_behind_the_tables_back(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_cell
    for name in ("_ckpt_wrapped_module", "_wrapped_module", "unwrap_cell"):
        with pytest.raises(AttributeError):
            setattr(wrapper, name, block())
    assert wrapper.unwrap_cell is inner


def test_unwrap_splices_every_wrapper_out_without_renaming_anything(wrap):
    whole = model()
    layers = list(whole.layers)
    names = [name for name, _ in whole.cells_and_names()]
    keys = list(whole.state_dict())
    wrap_layers(whole, wrap)
    assert rm.unwrap(whole) is whole
    assert all(now is then for now, then in zip(whole.layers, layers, strict=True))
    assert [name for name, _ in whole.cells_and_names()] == names
    assert list(whole.state_dict()) == keys


def test_unwrap_returns_the_inner_of_a_wrapped_root(wrap):
    inner = block()
    assert rm.unwrap(wrap(inner)) is inner
    assert rm.unwrap(inner) is inner


def test_unwrap_reaches_wrappers_inside_wrappers_and_shared_ones():
    whole = model()
    shared = rm.swap_wrapper(whole.layers[0].fc1)
    first = whole.layers[0]
    whole.layers[0] = rm.swap_wrapper(nn.SequentialCell(nn.Identity()))
    whole.layers[0].unwrap_cell[0] = first
    first.fc1 = shared
    whole.layers[1].fc1 = shared
    rm.unwrap(whole)
    assert not any(isinstance(m, rm.ActivationWrapper) for _, m in whole.cells_and_names())
    assert whole.layers[0][0].fc1 is whole.layers[1].fc1 is shared.unwrap_cell


def test_a_wrapper_someone_still_holds_becomes_a_plain_pass_through(wrap, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("a region was opened")

    wrapper = wrap(block())
    inner = rm.unwrap(wrapper)
    monkeypatch.setattr("restow.mindspore._regions.run_swapped", forbidden)
    monkeypatch.setattr("restow.mindspore._checkpoint.run_checkpointed", forbidden)
    monkeypatch.setattr("restow.mindspore._checkpoint.run_excluded", forbidden)
    x = tensor(2, 4)
    expected = block()(x, extra=1.0)
    assert bits(wrapper(x, extra=1.0)) == bits(expected)
    assert wrapper.gain is inner.gain
    again = wrap(inner)
    assert again.unwrap_cell is inner


def test_unwrap_refuses_what_is_no_module():
    with pytest.raises(TypeError, match="list"):
        rm.unwrap([block()])


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_backward_hook",
        "register_backward_pre_hook",
    ],
)
def test_unwrap_that_would_lose_hooks_is_an_error_and_changes_nothing(register):
    whole = wrap_layers(model(), PassThrough)
    wrappers = list(whole.layers)
    handle = getattr(whole.layers[2], register)(lambda *a: None)
    with pytest.raises(restow.Error, match=r"PassThrough.*Block.*hooks"):
        rm.unwrap(whole)
    assert all(now is then for now, then in zip(whole.layers, wrappers, strict=True))
    handle.remove()
    rm.unwrap(whole)
    assert all(type(layer) is Block for layer in whole.layers)


def test_unwrap_reaches_the_list_that_a_sequential_cell_runs():
    inner = [nn.Dense(4, 4), nn.Dense(4, 4)]
    whole = nn.SequentialCell(*[rm.swap_wrapper(cell) for cell in inner])
    rm.unwrap(whole)
    assert list(whole.cell_list) == inner
    assert list(whole) == inner
