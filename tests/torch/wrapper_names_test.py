"""Names of modules, parameters and buffers in models with wrappers."""

import pytest
import torch
from torch import nn
from wrapper_models import (  # noqa: F401
    PassThrough,
    block,
    model,
    table_is_left_as_it_was,
    wrap,
    wrap_layers,
    wrapped,
)


def test_named_modules_yield_the_wrapper_then_the_inner_module_under_the_same_name(wrap):
    whole = wrap_layers(model(1), wrap)
    plain = [name for name, _ in model(1).named_modules()]
    pairs = list(whole.named_modules())
    at = [name for name, _ in pairs].index("layers.0")
    assert [name for name, _ in pairs] == plain[: at + 1] + plain[at:]
    assert pairs[at][1] is whole.layers[0]
    assert pairs[at + 1][1] is whole.layers[0].unwrap_module
    assert {n: type(m) for n, m in dict(pairs).items()} == {
        n: type(m) for n, m in model(1).named_modules()
    }
    assert [n for n, _ in whole.layers[0].named_modules(prefix="p")][:3] == ["p", "p", "p.fc1"]


def test_the_distinct_names_of_modules_are_the_unwrapped_models(wrapped):
    plain = [name for name, _ in model().named_modules()]
    for duplicates in (True, False):
        names = [name for name, _ in wrapped.named_modules(remove_duplicate=duplicates)]
        assert list(dict.fromkeys(names)) == plain
    assert {type(m) for m in dict(wrapped.named_modules()).values()} == {
        type(m) for m in model().modules()
    }


def test_named_children_and_children_of_a_wrapper_are_the_inner_modules(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert list(wrapper.named_children()) == list(inner.named_children())
    assert list(wrapper.children()) == list(inner.children())


def test_a_shared_module_is_named_once(wrap):
    whole = model(2)
    shared = wrap(whole.layers[0])
    whole.layers[0] = shared
    whole.layers[1] = shared
    names = [name for name, _ in whole.named_modules()]
    assert "layers.1" not in names
    assert [name for name, _ in whole.named_modules(remove_duplicate=False)].count("layers.1") == 2


def test_apply_reaches_inner_modules_once_each(wrapped):
    seen, expected = [], []
    assert wrapped.apply(seen.append) is wrapped
    model().apply(expected.append)
    assert [type(m) for m in seen] == [type(m) for m in expected]
    assert len(set(seen)) == len(seen)


def test_random_initialisation_through_apply_draws_as_without_wrappers(wrapped):
    def start(module):
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter)

    plain = model()
    for whole in (plain, wrapped):
        torch.manual_seed(3)
        whole.apply(start)
    for ours, theirs in zip(wrapped.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


# Parameter names.


@pytest.mark.parametrize("duplicates", [True, False])
def test_parameters_and_buffers_have_the_unwrapped_keys_each_once_in_order(wrapped, duplicates):
    plain = model()
    for listing in ("named_parameters", "named_buffers"):
        expected = [n for n, _ in getattr(plain, listing)(remove_duplicate=duplicates)]
        assert [n for n, _ in getattr(wrapped, listing)(remove_duplicate=duplicates)] == expected
        prefixed = getattr(wrapped, listing)("p", remove_duplicate=duplicates)
        assert [n for n, _ in prefixed] == ["p." + n for n in expected]
    assert len(list(wrapped.parameters())) == len(list(plain.parameters()))
    assert len(list(wrapped.buffers())) == len(list(plain.buffers()))


def test_listings_without_recursion_are_the_inner_modules_own(wrap):
    wrapper = wrap(block())
    assert [n for n, _ in wrapper.named_parameters(recurse=False)] == ["gain"]
    assert [n for n, _ in wrapper.named_buffers(recurse=False)] == ["shift", "scratch"]


def test_what_each_module_owns_is_seen_once_by_a_walk_over_modules(wrapped):
    owned = [name for m in wrapped.modules() for name in m._parameters]
    assert owned == [name for m in model().modules() for name in m._parameters]
    held = [name for m in wrapped.modules() for name in m._buffers]
    assert held == [name for m in model().modules() for name in m._buffers]


def test_parameters_are_found_set_and_deleted_by_name_in_the_wrappers_registries(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert "gain" in wrapper._parameters
    assert "shift" in wrapper._buffers
    assert "fc1" in wrapper._modules
    assert wrapper._parameters["gain"] is wrapper._parameters.get("gain") is inner.gain
    assert wrapper._parameters.get("none", 7) == 7
    wrapper._parameters["gain"] = new = nn.Parameter(torch.zeros(4))
    assert inner.gain is new
    assert wrapper._parameters.pop("gain") is new
    wrapper._buffers["shift"] = torch.ones(4)
    del wrapper._buffers["shift"]
    assert not hasattr(inner, "gain")
    assert not hasattr(inner, "shift")


def test_functional_call_reaches_parameters_of_wrapped_modules(wrap):
    whole, plain = model().eval(), model().eval()
    whole.layers[0] = PassThrough(whole.layers[0])
    whole.first = PassThrough(whole.first)
    torch.manual_seed(5)
    values = {n: torch.randn_like(p) for n, p in plain.named_parameters()}
    x = torch.randn(2, 4)
    before = {n: p for n, p in whole.named_parameters()}
    ours = torch.func.functional_call(whole, values, (x,))
    assert torch.equal(ours, torch.func.functional_call(plain, values, (x,)))
    assert all(p is before[n] for n, p in whole.named_parameters())
