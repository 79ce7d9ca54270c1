"""Which wraps are refused, which are exempt."""

import functools
import gc

import pytest
import torch
from torch import nn
from wrapper_models import (  # noqa: F401
    REGIONS,
    WRAPS,
    Block,
    Callable,
    Model,
    block,
    model,
    table_is_left_as_it_was,
    wrap_layers,
)

import restow
import restow.torch as rt
from restow.torch import _overlap


@pytest.fixture(params=("swap", "checkpoint", "own"))
def wrap(request):
    """The first of two wrappers: a region."""
    return WRAPS[request.param]


@pytest.fixture(params=("swap", "own"))
def again(request):
    """The second of two wrappers: a region."""
    return WRAPS[request.param]


def refused(wrap, target, *words):
    """Asserts that the wrap is refused with these words and marks nothing."""
    before = dict(_overlap._overlaps._table)
    with pytest.raises(restow.Overlap) as caught:
        wrap(target)
    assert dict(_overlap._overlaps._table) == before
    assert isinstance(caught.value, ValueError)
    for word in words:
        assert word in str(caught.value)
    text = str(caught.value)
    # The error's traceback is a cycle, and holds the wrapper that was in the way.
    del caught
    gc.collect()
    return text


def plain_function(x):
    return x * 2


def test_the_module_itself_is_a_wrapper(wrap, again):
    wrapper = wrap(block())
    text = refused(again, wrapper, "Block", type(wrapper).__name__)
    assert "swap_inputs=True" in text


def test_the_module_itself_is_wrapped(wrap, again):
    inner = block()
    wrapper = wrap(inner)
    refused(again, inner, "Block", type(wrapper).__name__)


@pytest.mark.parametrize("path", ["first", "layers.1", "layers.1.fc2", "layers"])
def test_the_module_lies_inside_a_wrapped_one(wrap, again, path):
    whole = model()
    inner = whole.get_submodule(path)
    wrapper = wrap(whole)
    refused(again, inner, f"'{path}'", "Model", type(inner).__name__)
    del wrapper
    again(inner)


@pytest.mark.parametrize("path", ["first", "layers.1", "layers.1.fc2", "layers"])
def test_the_module_contains_a_wrapper_at_any_depth(wrap, again, path):
    whole = model()
    inner = whole.get_submodule(path)
    whole.set_submodule(path, wrap(inner))
    refused(again, whole, f"'{path}'", "Model", type(inner).__name__)
    rt.unwrap(whole)
    again(whole)


def test_the_module_contains_a_wrapped_one_whose_wrapper_is_elsewhere(wrap, again):
    whole = model()
    elsewhere = wrap(whole.layers[0])
    refused(again, whole, "'layers.0'", "Model", "Block")
    del elsewhere
    again(whole)


def test_the_classes_named_are_those_inside_the_wrappers(wrap, again):
    whole = model()
    whole.layers[0].fc1 = wrap(whole.layers[0].fc1)
    text = refused(again, whole.layers[0], "'fc1'", "Block", "Linear")
    assert "Wrapper" not in text.replace("unwrap", "")


def test_a_child_put_into_a_wrapped_module_later_lies_inside_it(wrap, again):
    outer = wrap(nn.Sequential(block()))
    outer.append(nn.Linear(4, 4))
    refused(again, outer[1], "'1'", "Sequential", "Linear")


@pytest.mark.parametrize("make", [Callable, lambda: functools.partial(plain_function)])
def test_a_per_instance_callable_is_wrapped_twice(wrap, again, make):
    callable_object = make()
    wrapper = wrap(callable_object)
    refused(again, callable_object, type(callable_object).__name__)
    refused(again, rt.FuncModule(callable_object), type(callable_object).__name__)
    again(make())
    del wrapper
    again(callable_object)


@pytest.mark.parametrize("path", ["", "layers.1"])
def test_a_wrapped_callable_is_a_public_instance_attribute_of_the_module(wrap, again, path):
    whole = model()
    callable_object = Callable()
    whole.get_submodule(path).act = callable_object
    wrapper = wrap(callable_object)
    refused(again, whole, f"'{path}.act'".replace("'.", "'"), "Model", "Callable")
    del wrapper
    again(whole)


def test_a_callable_that_is_a_public_attribute_of_a_wrapped_module_is_not_wrapped(wrap, again):
    whole = model()
    whole.layers[2].act = Callable()
    wrapper = wrap(whole)
    refused(again, whole.layers[2].act, "'layers.2.act'", "Model", "Callable")
    del wrapper


@pytest.mark.parametrize(
    "fn",
    [plain_function, lambda x: x, len, torch.relu, block().doubled, torch.zeros(1).add, [].append],
    ids=["function", "lambda", "builtin", "torch", "method", "tensor_method", "builtin_method"],
)
def test_functions_builtins_and_bound_methods_are_exempt_wherever_they_are(wrap, again, fn):
    first, second = wrap(fn), again(fn)
    whole = model()
    whole.layers[0].act = fn
    third = again(whole)
    fourth = wrap(fn)
    assert len({id(w) for w in (first, second, third, fourth)}) == 4


def test_a_child_wrapper_around_a_function_is_exempt_when_its_parent_is_wrapped(wrap, again):
    whole = model()
    whole.layers[0].act = wrap(plain_function)
    assert again(whole).unwrap_module is whole


def test_a_function_may_be_wrapped_inside_a_wrapped_module(wrap, again):
    whole = wrap(model())
    whole.layers[0].act = again(plain_function)
    assert whole.layers[0].act.unwrap_module._fn is plain_function


def test_a_wrapper_of_a_function_is_itself_a_wrapper(wrap, again):
    refused(again, wrap(plain_function), "function")


def test_attributes_whose_name_begins_with_an_underscore_are_exempt(wrap, again):
    whole = model()
    callable_object = Callable()
    whole.layers[0]._act = callable_object
    wrapper = wrap(callable_object)
    outer = again(whole)
    del wrapper
    wrap(callable_object)
    del outer


def test_a_child_shared_by_two_wrapped_siblings_is_exempt(wrap, again):
    whole = model(2)
    shared = nn.Linear(4, 4)
    whole.layers[0].fc1 = shared
    whole.layers[1].fc1 = shared
    whole.layers[0] = wrap(whole.layers[0])
    whole.layers[1] = again(whole.layers[1])
    assert whole.layers[0].fc1 is whole.layers[1].fc1 is shared


def test_siblings_may_be_wrapped_each(wrap, again):
    whole = model(2)
    whole.layers[0] = wrap(whole.layers[0])
    whole.layers[1] = again(whole.layers[1])


def test_all_checks_come_before_any_change_and_a_refused_wrap_marks_nothing(wrap):
    whole = model()
    whole.layers[2].fc2 = wrap(whole.layers[2].fc2)
    refused(wrap, whole)
    wrap(whole.layers[0])
    wrap(whole.layers[1].fc1)


def test_an_overlap_formed_later_by_assignment_is_no_error(wrap, again):
    outer = wrap(nn.Sequential(nn.Identity(), nn.Identity()))
    outer[0] = again(nn.Linear(4, 4))
    assert [name for name, _ in outer.named_parameters()] == ["0.weight", "0.bias"]


def test_a_child_moved_out_of_a_wrapped_module_may_be_wrapped(wrap, again):
    outer = wrap(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    inner = outer[0]
    outer[0] = nn.Identity()
    again(inner)


def test_a_module_that_contains_itself_is_walked_once(wrap, again):
    whole = model()
    whole.layers[0].__dict__["_modules"]["up"] = whole
    wrapper = wrap(whole)
    refused(again, whole.layers[1])
    del whole.layers[0].__dict__["_modules"]["up"]
    del wrapper


def test_an_excluded_module_may_lie_inside_a_region_and_is_wrapped_once(wrap):
    for order in ("inside first", "outside first"):
        whole = model()
        if order == "inside first":
            whole.layers[0] = rt.checkpoint_exclude_wrapper(whole.layers[0])
            outer = wrap(whole)
        else:
            outer = wrap(whole)
            whole.layers[0] = rt.checkpoint_exclude_wrapper(whole.layers[0])
        assert isinstance(outer.layers[0], rt.ActivationWrapper)
        refused(rt.checkpoint_exclude_wrapper, whole.layers[0].fc1, "'fc1'")
        refused(rt.checkpoint_exclude_wrapper, whole.layers[0], "Block")
        refused(wrap, whole.layers[0], "Block")
        refused(wrap, whole.layers[0].fc1)


def test_a_region_may_not_lie_inside_an_excluded_module(wrap):
    inner = block()
    inner.fc1 = wrap(inner.fc1)
    refused(rt.checkpoint_exclude_wrapper, inner, "'fc1'", "Linear")


def test_every_layer_of_a_large_model_can_be_wrapped():
    whole = wrap_layers(Model(layers=200), rt.swap_wrapper)
    assert all(type(layer) is rt.SwapWrapper for layer in whole.layers)
    assert all(type(layer.unwrap_module) is Block for layer in whole.layers)
