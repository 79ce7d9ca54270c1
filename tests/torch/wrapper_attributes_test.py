"""Reads, writes and container syntax through a wrapper."""

import pytest
import torch
from torch import nn
from wrapper_models import (  # noqa: F401
    PassThrough,
    block,
    model,
    table_is_left_as_it_was,
    wrap,
    wrapped,
)

import restow.torch as rt

BARE = sorted(set(dir(nn.Module())))


def test_reads_give_the_wrappers_own_attributes_then_the_inner_modules(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert wrapper.gain is inner.gain
    assert wrapper.fc1 is inner.fc1
    assert wrapper.shift is inner.shift
    assert wrapper.note == "plain"
    assert wrapper.width == 4
    assert wrapper.version == "class attribute"
    assert wrapper.doubled(3) == 6
    inner.__dict__["unwrap_module"] = "hidden"
    inner.__dict__["_site"] = "hidden"
    assert wrapper.unwrap_module is inner
    assert wrapper._site != "hidden"


def test_unknown_attributes_name_wrapper_type_and_attribute(wrap):
    wrapper = wrap(block())
    with pytest.raises(AttributeError, match=rf"{type(wrapper).__name__}.*nothing_like_it"):
        wrapper.nothing_like_it
    assert not hasattr(wrapper, "nothing_like_it")
    assert getattr(wrapper, "nothing_like_it", 3) == 3


@pytest.mark.parametrize("name", BARE)
def test_names_of_a_bare_module_are_never_forwarded(name):
    class Loud(nn.Module):
        def __getattribute__(self, asked):
            if asked == armed:
                raise AssertionError(f"{asked} was forwarded")
            return super().__getattribute__(asked)

    armed = None
    half_built = rt.SwapWrapper.__new__(rt.SwapWrapper)
    half_built.__dict__["_ckpt_wrapped_module"] = Loud()
    armed = name
    with pytest.raises(AttributeError):
        half_built.__getattr__(name)


def test_the_hooks_and_forward_of_a_wrapper_are_its_own(wrap):
    wrapper = wrap(block())
    assert wrapper.forward.__self__ is wrapper
    assert wrapper._forward_hooks is not wrapper.unwrap_module._forward_hooks
    wrapper.register_forward_hook(lambda *a: None)
    assert not wrapper.unwrap_module._forward_hooks


@pytest.mark.parametrize("kind", [rt.SwapWrapper, rt.CheckpointWrapper, PassThrough])
@pytest.mark.parametrize(
    "name",
    ["gain", "training", "_modules", "_parameters", "_ckpt_wrapped_module", "bprop", "_site"],
)
def test_a_half_built_wrapper_is_probed_without_recursion(kind, name):
    wrapper = kind.__new__(kind)
    assert not hasattr(wrapper, name)
    assert isinstance(dir(wrapper), list)
    assert "None" in repr(wrapper)


def test_dir_lists_both(wrap):
    names = dir(wrap(block()))
    assert {"unwrap_module", "gain", "fc1", "shift", "note", "width", "forward"} <= set(names)


# Writes and deletes.


def test_writes_and_deletes_go_to_the_inner_module(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    gain, layer, shift = nn.Parameter(torch.zeros(4)), nn.Linear(4, 4), torch.ones(4)
    wrapper.gain = gain
    wrapper.fc1 = layer
    wrapper.shift = shift
    wrapper.note = "new"
    wrapper.more = nn.Parameter(torch.zeros(1))
    assert (inner.gain, inner.fc1, inner.shift, inner.note) == (gain, layer, shift, "new")
    assert "more" in dict(inner.named_parameters())
    assert not {"gain", "fc1", "shift", "note", "more"} & set(vars(wrapper))
    for name in ("gain", "fc1", "shift", "note", "more"):
        delattr(wrapper, name)
        assert not hasattr(inner, name)
    with pytest.raises(AttributeError):
        del wrapper.gone


def test_a_write_that_the_inner_module_refuses_is_refused(wrap):
    wrapper = wrap(block())
    with pytest.raises(TypeError, match="gain"):
        wrapper.gain = torch.zeros(4)
    with pytest.raises(AttributeError):
        wrapper.width = 5


def test_registering_goes_to_the_inner_module(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    wrapper.register_parameter("p", nn.Parameter(torch.zeros(1)))
    wrapper.register_buffer("b", torch.zeros(1), persistent=False)
    wrapper.register_module("m", nn.Identity())
    wrapper.add_module("n", nn.Identity())
    assert {"p"} <= set(inner._parameters)
    assert {"b"} <= set(inner._buffers)
    assert {"m", "n"} <= set(inner._modules)
    assert "b" in inner._non_persistent_buffers_set


def test_set_submodule_and_get_submodule_see_through(wrapped):
    names = [n for n, _ in model().named_modules() if n]
    for name in names:
        assert wrapped.get_submodule(name) is not None
    new = nn.Linear(4, 4)
    wrapped.set_submodule("layers.0.fc2", new)
    assert wrapped.get_submodule("layers.0.fc2") is new
    assert wrapped.get_parameter("layers.0.gain") is wrapped.layers[0].gain
    assert wrapped.get_buffer("layers.0.shift") is wrapped.layers[0].shift
    rt.unwrap(wrapped)
    assert wrapped.layers[0].fc2 is new


def test_declared_attributes_are_written_to_the_wrapper(wrap):
    wrapper = wrap(block())
    for name in set(vars(wrapper)) - set(vars(nn.Module())) - {"_ckpt_wrapped_module"}:
        setattr(wrapper, name, "mine")
        assert getattr(wrapper, name) == "mine"
        assert not hasattr(wrapper.unwrap_module, name)


def test_a_policy_that_is_a_module_is_no_child():
    wrapper = rt.swap_wrapper(block(), policy_fn=nn.Linear(1, 1))
    assert list(wrapper.state_dict()) == list(block().state_dict())


def test_training_is_a_property_of_the_inner_module(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert wrapper.training is True
    wrapper.training = False
    assert inner.training is False
    inner.training = True
    assert wrapper.training is True
    assert "training" not in vars(wrapper)


# Containers.


def test_indexing_len_iteration_and_in_are_forwarded(wrap):
    parts = [nn.Linear(1, 1), nn.ReLU()]
    wrapper = wrap(nn.Sequential(*parts))
    assert wrapper[0] is parts[0]
    assert list(wrapper[0:1]) == parts[:1]
    assert len(wrapper) == 2
    assert list(wrapper) == parts
    assert list(reversed(wrapper)) == parts[::-1]
    assert parts[1] in wrapper
    assert nn.Identity() not in wrapper
    wrapper[1] = replacement = nn.Tanh()
    assert wrapper.unwrap_module[1] is replacement
    del wrapper[1]
    assert len(wrapper.unwrap_module) == 1


def test_indexing_len_iteration_and_in_are_errors_where_the_inner_module_has_none(wrap):
    wrapper = wrap(nn.Linear(1, 1))
    for use in (len, iter, lambda w: w[0], lambda w: 0 in w):
        with pytest.raises(TypeError, match="Linear"):
            use(wrapper)


@pytest.mark.parametrize(
    "inner", [nn.Sequential(), nn.Sequential(nn.ReLU()), nn.ModuleList(), nn.Linear(1, 1)]
)
def test_bool_is_that_of_the_inner_module(wrap, inner):
    assert bool(wrap(inner)) == bool(inner)
