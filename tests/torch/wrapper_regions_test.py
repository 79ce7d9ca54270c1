"""Calls of wrappers: which region they open, and that training through them is bit-identical."""

import copy

import pytest
import torch
from helpers import assert_same, must_swap
from torch import nn
from wrapper_models import (  # noqa: F401
    Block,
    Callable,
    PassThrough,
    block,
    mixed,
    model,
    swap_all,
    table_is_left_as_it_was,
    train,
    wrap_layers,
)

import restow
import restow.torch as rt


class Recorder:
    """Stands in for a way to run a region: calls plainly and keeps what it was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, fn, args, kwargs, **options):
        self.calls.append((fn, args, kwargs, options))
        return fn(*args, **kwargs)


@pytest.fixture
def recorders(monkeypatch):
    made = {
        "run_swapped": Recorder(),
        "run_checkpointed": Recorder(),
        "run_excluded": Recorder(),
    }
    monkeypatch.setattr("restow.torch._regions.run_swapped", made["run_swapped"])
    for name in ("run_checkpointed", "run_excluded"):
        monkeypatch.setattr(f"restow.torch._checkpoint.{name}", made[name])
    return made


def test_a_swap_wrapper_runs_the_inner_module_in_a_swap_region(recorders):
    pool = rt.HostPool("1 MiB")
    wrapper = rt.swap_wrapper(block(), must_swap, True, pool)
    x = torch.randn(3, 4)
    assert torch.equal(wrapper(x, extra=1.0), block()(x, extra=1.0))
    [(fn, args, kwargs, options)] = recorders["run_swapped"].calls
    assert fn is options["owner"] is wrapper.unwrap_module
    assert args == (x,)
    assert kwargs == {"extra": 1.0}
    assert options["policy_fn"] is must_swap
    assert options["group_swap"] is True
    assert options["cpu_pool"] is pool
    assert options["name"].startswith("Block#")


def test_a_checkpoint_wrapper_runs_the_inner_module_in_a_checkpoint(recorders):
    wrapper = rt.checkpoint_wrapper(block(), swap_inputs=True, early_stop=False)
    x = torch.randn(3, 4)
    assert torch.equal(wrapper(x, extra=1.0), block()(x, extra=1.0))
    [(fn, args, kwargs, options)] = recorders["run_checkpointed"].calls
    assert fn is options["owner"] is wrapper.unwrap_module
    assert args == (x,)
    assert kwargs == {"extra": 1.0}
    assert options["swap_inputs"] is True
    assert options["early_stop"] is False
    assert options["preserve_rng_state"] is True
    assert options["determinism_check"] == "default"


def test_an_exclude_wrapper_runs_the_inner_module_once(recorders):
    wrapper = rt.checkpoint_exclude_wrapper(block(), save_output=False)
    wrapper(torch.randn(3, 4))
    [(fn, _, _, options)] = recorders["run_excluded"].calls
    assert fn is wrapper.unwrap_module
    assert options == {"save_output": False}


def test_policy_fn_and_group_swap_are_looked_up_at_every_call(recorders):
    for wrapper, recorder in (
        (rt.swap_wrapper(block()), recorders["run_swapped"]),
        (rt.checkpoint_wrapper(block()), recorders["run_checkpointed"]),
    ):
        for policy_fn, group_swap in ((None, False), (len, True), (max, False)):
            wrapper.policy_fn = policy_fn
            wrapper.group_swap = group_swap
            wrapper(torch.randn(3, 4))
            options = recorder.calls[-1][-1]
            assert (options["policy_fn"], options["group_swap"]) == (policy_fn, group_swap)


def test_a_wrapped_function_is_its_own_owner_so_that_closures_are_looked_through(recorders):
    def fn(x):
        return 2 * x

    assert rt.swap_wrapper(fn)(3) == 6
    assert recorders["run_swapped"].calls[0][-1]["owner"] is fn
    assert recorders["run_swapped"].calls[0][-1]["name"].startswith("fn#")


def test_a_site_is_named_once_and_differs_between_wrappers(recorders):
    first, second = rt.swap_wrapper(block()), rt.swap_wrapper(block())
    for wrapper in (first, first, second):
        wrapper(torch.randn(3, 4))
    names = [options["name"] for *_, options in recorders["run_swapped"].calls]
    assert names[0] == names[1] != names[2]
    first._site = "layers.0"
    first(torch.randn(3, 4))
    assert recorders["run_swapped"].calls[-1][-1]["name"] == "layers.0"


def test_the_hooks_of_the_inner_module_run_inside_and_the_wrappers_outside(recorders, monkeypatch):
    order = []

    def run(fn, args, kwargs, **options):
        order.append("region opens")
        result = fn(*args, **kwargs)
        order.append("region closes")
        return result

    monkeypatch.setattr("restow.torch._regions.run_swapped", run)
    wrapper = rt.swap_wrapper(block())
    wrapper.register_forward_pre_hook(lambda *a: order.append("before wrapper"))
    wrapper.register_forward_hook(lambda *a: order.append("after wrapper"))
    wrapper.unwrap_module.register_forward_pre_hook(lambda *a: order.append("before inner"))
    wrapper.unwrap_module.register_forward_hook(lambda *a: order.append("after inner"))
    wrapper(torch.randn(3, 4))
    assert order == [
        "before wrapper",
        "region opens",
        "before inner",
        "after inner",
        "region closes",
        "after wrapper",
    ]


# Regions for real.


def nested(whole):
    """A swap inside a swap and inside a checkpoint, formed by later assignment."""
    for index, wrap in enumerate((swap_all, rt.checkpoint_wrapper, swap_all)):
        whole.layers[index] = wrap(whole.layers[index])
    for layer in whole.layers:
        within = swap_all(nn.Linear(4, 4))
        within.load_state_dict(layer.fc1.state_dict())
        layer.fc1 = within
    return whole


WHOLES = {
    "swap": lambda whole: wrap_layers(whole, swap_all),
    "swap, group": lambda whole: wrap_layers(whole, lambda m: rt.swap_wrapper(m, None, True)),
    "checkpoint": lambda whole: wrap_layers(whole, rt.checkpoint_wrapper),
    "both": lambda whole: wrap_layers(whole, lambda m: rt.checkpoint_wrapper(m, swap_inputs=True)),
    "exclude": lambda whole: wrap_layers(whole, rt.checkpoint_exclude_wrapper),
    "own": lambda whole: wrap_layers(whole, PassThrough),
    "mixed": mixed,
    "nested": nested,
    "root": swap_all,
}


@pytest.mark.parametrize("name", list(WHOLES))
def test_training_through_wrappers_is_bit_identical(two_settings, name):
    device = two_settings.device
    expected = train(model(), device)
    rt.reset_stats()
    assert_same(expected, train(WHOLES[name](model()), device))
    stats = rt.stats()
    assert (stats.bytes_out > 0) == (name not in ("checkpoint", "exclude", "own"))
    assert (stats.recomputed_regions > 0) == (name in ("checkpoint", "both", "mixed", "nested"))


@pytest.mark.parametrize("name", ["swap", "checkpoint", "both"])
def test_a_deep_copy_and_its_original_train_at_once(two_settings, name):
    device = two_settings.device
    whole = WHOLES[name](model())
    twin = copy.deepcopy(whole)
    expected = train(model(), device)
    assert_same(expected, train(whole, device))
    assert_same(expected, train(twin, device))


def test_an_unwrapped_model_trains_on_without_regions(two_settings):
    whole = wrap_layers(model(), swap_all)
    wrappers = list(whole.layers)
    rt.unwrap(whole)
    rt.reset_stats()
    assert_same(train(model(), two_settings.device), train(whole, two_settings.device))
    x = torch.randn(3, 4).to(two_settings.device)
    wrappers[0](x).sum().backward()
    assert rt.stats().bytes_out == 0


@pytest.mark.parametrize("name", ["swap", "checkpoint", "both"])
def test_functional_forms_nest_in_wrappers_and_around_them(two_settings, name):
    class Inside(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            x = rt.swap(torch.tanh, x, policy_fn=must_swap)
            with rt.region("swap", policy_fn=must_swap):
                x = torch.sigmoid(x) * x
            return rt.checkpoint(self.inner, x)

    class Outside(nn.Module):
        def __init__(self, whole):
            super().__init__()
            self.whole = whole

        def forward(self, x):
            return rt.swap(rt.checkpoint, self.whole, x, policy_fn=must_swap)

    def build():
        whole = model()
        for index, layer in enumerate(whole.layers):
            whole.layers[index] = Inside(layer)
        return whole

    device = two_settings.device
    with restow.disabled():
        expected = train(build(), device)
    assert_same(expected, train(WHOLES[name](build()), device))
    assert_same(expected, train(Outside(WHOLES[name](build())), device))


def test_an_excluded_module_inside_a_checkpoint_runs_once(two_settings):
    calls = []

    class Counted(Block):
        def forward(self, x, *, extra=0.0):
            calls.append("excluded")
            return super().forward(x, extra=extra)

    def build(wrap):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 4), wrap(Counted()), nn.Tanh(), nn.Linear(4, 4))

    device = two_settings.device
    expected = train(build(lambda m: m), device)
    plain_calls, calls[:] = len(calls), []
    whole = rt.checkpoint_wrapper(build(rt.checkpoint_exclude_wrapper))
    rt.reset_stats()
    assert_same(expected, train(whole, device))
    assert rt.stats().recomputed_regions > 0
    assert len(calls) == plain_calls


def test_parameters_inside_a_wrapper_in_a_region_never_move(two_settings):
    """The wrapper shows no parameters of its own, and the region belongs to the module around."""

    def run(whole):
        x = torch.randn(5, 4).to(two_settings.device).requires_grad_()
        y = rt.swap(whole, x, policy_fn=asked)
        y.sum().backward()

    sizes = []

    def asked(tensor):
        sizes.append(tuple(tensor.shape))
        return rt.CheckpointPolicy.MUST_SWAP

    class Views(nn.Module):
        """Saves views of its parameter that lost every trace of being one but the storage."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(7, 4))

        def forward(self, x):
            return (x[:, None, :] * self.weight.detach().reshape(7, 4)[None]).sum(1)

    run(nn.Sequential(nn.Tanh(), Views()).to(two_settings.device))
    assert sizes
    assert not any(7 in size for size in sizes)
    sizes.clear()
    run(nn.Sequential(nn.Tanh(), PassThrough(Views())).to(two_settings.device))
    assert sizes
    assert not any(7 in size for size in sizes)


def test_callables_train_bit_identically(two_settings):
    device = two_settings.device

    def run(wrap):
        x = torch.linspace(-1, 1, 12).reshape(3, 4).to(device).requires_grad_()
        activation = wrap(lambda t, scale: torch.tanh(t) * torch.sigmoid(t) * scale)
        y = wrap(Callable(3.0))(activation(x, scale=2.0).exp()).square().sum()
        y.backward()
        return [y.detach().cpu(), x.grad.cpu()]

    expected = run(lambda fn: fn)
    for wrap in (swap_all, rt.checkpoint_wrapper, rt.checkpoint_exclude_wrapper):
        assert_same(expected, run(wrap))


def test_disabled_turns_every_wrapper_into_a_plain_call(two_settings):
    whole = mixed(model())
    rt.reset_stats()
    with restow.disabled():
        ours = train(whole, two_settings.device)
    assert_same(train(model(), two_settings.device), ours)
    assert rt.stats().bytes_out == rt.stats().recomputed_regions == 0
