"""Recompute, and other people's hooks around and inside: cases 16 to 18."""

import pytest
import torch
from helpers import (
    SWAPS,
    WAYS,
    assert_same,
    checkpoint,
    expect_changes_under_a_copy,
    gradients,
    message_of,
    swap,
)
from torch import nn
from torch.utils import checkpoint as torch_checkpoint

import restow
import restow.torch as rt


def block(device, width=6):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.5)).to(device)


def test_case_16_dropout_falls_alike_in_the_recompute(setting):
    def scenario(run):
        layers = [block(setting.device) for _ in range(3)]
        x = setting.leaf(8, 6)
        y = x
        for layer in layers:
            y = run(layer, y)
        y.sum().backward()
        after = torch.rand(3, device=setting.device)
        return gradients(x, *(p for layer in layers for p in layer.parameters())) + [after]

    setting.compare(scenario)


def test_case_16_without_preserving_the_state_of_random_numbers(setting):
    def scenario(run):
        x = setting.leaf(8, 6)
        keywords = {} if run is not checkpoint else {"preserve_rng_state": False}
        run(lambda t: (t * 2).exp() * t, x, **keywords).sum().backward()
        return gradients(x)

    setting.compare(scenario, ["checkpoint"])


@pytest.mark.parametrize("inner", ["plain", "swap", "checkpoint"])
def test_case_16_nested_three_deep(setting, inner):
    ways = {**WAYS, "plain": lambda fn, *args: fn(*args)}

    def scenario(run):
        layer = block(setting.device)
        x = setting.leaf(4, 6)

        def third(t):
            return layer(t).exp()

        def second(t):
            return run(third, t * 2) * t

        def first(t):
            return run(second, t.sin()) + ways[inner](layer, t)

        run(first, x).sum().backward()
        return gradients(x, *layer.parameters())

    setting.compare(scenario)


@pytest.mark.parametrize("early_stop", [True, False])
def test_case_16_early_stop_decides_how_far_a_recompute_runs(setting, early_stop):
    calls = []

    def fn(t):
        y = (t * 2).exp()
        calls.append("before the last save")
        z = y * y
        calls.append("after it")
        return z + 1

    x = setting.leaf(4, 6)
    y = rt.checkpoint(fn, x, early_stop=early_stop)
    del calls[:]
    y.sum().backward()
    last = [] if early_stop else ["after it"]
    assert calls == ["before the last save"] + last
    e = (x.detach() * 2).exp()
    assert_same([(e + e) * e * 2], gradients(x))


def test_case_16_a_function_that_saves_more_the_second_time_is_found_out(setting):
    first = [True]

    def fn(t):
        y = t.exp()
        if first:
            first.clear()
            return y.sin()
        return y.sin().exp().sin()

    x = setting.leaf(4, 6)
    y = rt.checkpoint(fn, x, early_stop=False)
    assert message_of(restow.NotDeterministic, y.sum().backward)
    assert x.grad is None


def test_case_16_a_function_that_saves_less_the_second_time_is_found_out(setting):
    first = [True]

    def fn(t):
        if first:
            first.clear()
            return t.exp().sin().exp()
        return t.exp()

    x = setting.leaf(4, 6)
    y = rt.checkpoint(fn, x)
    assert message_of(restow.NotDeterministic, y.sum().backward)
    assert x.grad is None


def test_case_16_a_function_that_saves_other_shapes_is_found_out_and_both_are_named(setting):
    sizes = iter([5, 4])

    def fn(t):
        return t[: next(sizes)].exp().sum()

    x = setting.leaf(6, 7)
    y = rt.checkpoint(fn, x)
    text = message_of(restow.NotDeterministic, y.backward)
    assert "5, 7" in text and "4, 7" in text
    assert x.grad is None


def test_case_16_a_function_that_saves_another_type_is_found_out(setting):
    types = iter([torch.float64, torch.bfloat16])

    def fn(t):
        return t.to(next(types)).exp().sum().float()

    x = setting.leaf(6, 7)
    y = rt.checkpoint(fn, x)
    text = message_of(restow.NotDeterministic, y.backward)
    assert "float64" in text.lower() or "double" in text.lower()
    assert "bfloat16" in text.lower()


def test_case_16_a_function_that_runs_a_backward_of_its_own(setting):
    def scenario(run):
        x = setting.leaf(4, 6)

        def fn(t):
            with torch.enable_grad():
                inner = t.detach().requires_grad_()
                ((inner * 2).exp() * inner).sum().backward()
            return t * inner.grad * t.exp()

        run(fn, x).sum().backward()
        return gradients(x)

    setting.compare(scenario)


RERUNS = ("checkpoint", "checkpoint_swapped", "swap_of_checkpoint")


def test_case_16_inputs_changed_after_forward_do_not_matter_where_the_inside_was_swapped(setting):
    """The swap inside is on top: its copies serve the backward, and nothing is run again."""
    x = setting.leaf(4, 6)
    h = x * 2
    y = WAYS["checkpoint_of_swap"](lambda t: (t * 3).exp().sin(), h)
    h.mul_(2)
    y.sum().backward()
    e = (x.detach() * 2 * 3).exp()
    assert_same([e.cos() * e * 3 * 2], gradients(x))
    assert rt.stats().recomputed_regions == 0


@pytest.mark.parametrize("way", RERUNS)
def test_case_16_inputs_changed_after_forward_are_an_error(setting, way):
    x = setting.leaf(4, 6)
    h = x * 2
    y = WAYS[way](lambda t: (t * 3).exp().sin(), h)
    h.mul_(2)
    message_of(restow.ModifiedInPlace, y.sum().backward)
    assert x.grad is None
    expect_changes_under_a_copy()


@pytest.mark.parametrize("way", RERUNS)
def test_case_16_inputs_that_want_no_gradient_and_are_changed_are_an_error_too(setting, way):
    x, mask = setting.leaf(4, 6), setting.random(4, 6)
    y = WAYS[way](lambda t, m: (t * m).exp().sin(), x, mask)
    mask.zero_()
    message_of(restow.ModifiedInPlace, y.sum().backward)
    assert x.grad is None
    expect_changes_under_a_copy()


def test_case_17_a_region_under_autocast_recomputes_under_autocast(setting):
    def scenario(run):
        layer = block(setting.device)
        x = setting.leaf(8, 6)
        with torch.autocast(setting.device, dtype=torch.bfloat16):
            y = run(layer, run(layer, x))
        y.float().sum().backward()
        return gradients(x, *layer.parameters())

    setting.compare(scenario)


def test_case_17_the_cache_of_autocast_is_not_poisoned(setting):
    """A weight cast in a recompute must not serve a forward that wants its gradient."""

    def scenario(run):
        layer = nn.Linear(6, 6).to(setting.device)
        with torch.no_grad():
            layer.weight.copy_(torch.eye(6))
        x = setting.leaf(8, 6)
        with torch.autocast(setting.device, dtype=torch.bfloat16):
            first = run(lambda t: layer(t).sin(), x).float().sum()
            first.backward()
            run(lambda t: layer(t).sin(), x).float().sum().backward()
            layer(x).float().sum().backward()
        return gradients(x, *layer.parameters())

    setting.compare(scenario)


def test_case_17_grad_mode_and_default_type_are_the_forwards(setting):
    seen = []

    def scenario(run):
        x = setting.leaf(4, 6)

        def fn(t):
            seen.append((torch.is_grad_enabled(), torch.get_default_dtype()))
            return (t * torch.full((), 2.0, device=setting.device)).exp()

        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            y = run(fn, x)
        finally:
            torch.set_default_dtype(before)
        y.sum().backward()
        return gradients(x)

    setting.compare(scenario)
    assert set(seen) == {(True, torch.float64)}


def test_case_17_the_stream_of_random_numbers_outside_is_unchanged(setting):
    def scenario(run):
        layer = block(setting.device)
        x = setting.leaf(8, 6)
        y = run(layer, x)
        drawn = [torch.rand(2), torch.rand(2, device=setting.device)]
        y.sum().backward()
        return drawn + [torch.rand(2), torch.rand(2, device=setting.device)] + gradients(x)

    setting.compare(scenario)


def test_case_17_is_recomputing_tells_the_second_run_from_the_first(setting):
    seen = []

    def fn(t):
        seen.append(rt.is_recomputing())
        return (t * 2).exp().sin()

    x = setting.leaf(4, 6)
    y = rt.checkpoint(fn, x)
    assert not rt.is_recomputing()
    y.sum().backward()
    assert seen == [False, True]
    assert not rt.is_recomputing()
    assert rt.stats().recomputed_regions == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_case_18_torchs_checkpoint_inside_ours(setting, reentrant):
    def scenario(run):
        layer = block(setting.device)
        x = setting.leaf(8, 6)

        def fn(t):
            inner = torch_checkpoint.checkpoint(layer, t.sin(), use_reentrant=reentrant)
            return inner.exp() * t

        run(fn, x).sum().backward()
        return gradients(x, *layer.parameters())

    setting.compare(scenario)


@pytest.mark.parametrize("reentrant", [True, False])
def test_case_18_ours_inside_torchs_checkpoint(setting, reentrant):
    def scenario(run):
        layer = block(setting.device)
        x = setting.leaf(8, 6)

        def fn(t):
            return run(layer, t.sin()).exp() * t

        torch_checkpoint.checkpoint(fn, x, use_reentrant=reentrant).sum().backward()
        return gradients(x, *layer.parameters())

    setting.compare(scenario, moves=())


@pytest.mark.parametrize("outside", [True, False])
def test_case_18_save_on_cpu(setting, outside):
    def scenario(run):
        x = setting.leaf(8, 6)

        def fn(t):
            if outside:
                return (t * 2).exp() * t
            y = t.sin().exp()
            with torch.autograd.graph.save_on_cpu():
                return y.exp() * t

        if outside:
            with torch.autograd.graph.save_on_cpu():
                y = run(fn, x).tanh()
        else:
            y = run(fn, x)
        y.sum().backward()
        return gradients(x)

    setting.compare(scenario)


def test_case_18_hooks_of_others_inside_ours_see_their_own_tensors_only(setting):
    seen = []

    def scenario(run):
        x = setting.leaf(8, 6)
        seen.clear()

        def fn(t):
            a = t.exp()
            with torch.autograd.graph.saved_tensors_hooks(
                lambda t: seen.append(t.shape) or t, lambda t: t
            ):
                b = a.sin()
            return b.tanh()

        run(fn, x).sum().backward()
        return gradients(x) + [list(seen)]

    setting.compare(scenario, ["swap", "region", "keep"])


@pytest.mark.parametrize("way", WAYS)
def test_case_18_where_torch_disables_hooks_a_region_touches_nothing(setting, way):
    """As inside torch.func's transforms, whose inner graphs no hook may see."""
    x = setting.leaf(4, 6)
    rt.reset_stats()
    with torch.autograd.graph.disable_saved_tensors_hooks("not here, says the test"):
        y = WAYS[way](torch.exp, x)
        assert (rt.stats().units, rt.stats().bytes_out) == (0, 0)
        y.sum().backward()
    assert_same([x.detach().exp()], gradients(x))
    assert rt.stats().recomputed_regions == 0
    swap(torch.exp, x)
    assert rt.stats().bytes_out > 0


@pytest.mark.parametrize("way", SWAPS)
def test_case_18_swapped_inside_a_recompute_moves_again(setting, way):
    """The recompute saves anew; what it saves lives no longer than the backward."""
    x = setting.leaf(8, 6)
    y = checkpoint(lambda t: WAYS[way](torch.exp, t * 2).sin(), x)
    y.sum().backward()
    inner = (x.detach() * 2).exp()
    expected = inner.cos() * inner * 2
    assert_same([expected], gradients(x))
