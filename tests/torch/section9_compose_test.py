"""Function transforms, compilers and capacity: cases 19, 20 and 22."""

import pytest
import torch
from helpers import (
    RECOMPUTES,
    WAYS,
    assert_same,
    eventually,
    gradients,
    message_of,
    must_save,
    plain,
)
from torch import nn

import restow.emulator as emu
import restow.torch as rt

TRANSFORMS = {
    "grad": lambda fn: torch.func.grad(lambda t: fn(t).sum()),
    "vjp": lambda fn: lambda t: torch.func.vjp(fn, t)[1](torch.ones_like(t))[0],
    "vmap": torch.func.vmap,
    "jvp": lambda fn: lambda t: torch.func.jvp(fn, (t,), (torch.ones_like(t),))[1],
    "jacrev": torch.func.jacrev,
    "hessian": lambda fn: torch.func.hessian(lambda t: fn(t).sum()),
}


def transformed(setting, transform, run):
    x = setting.leaf(2, 3)
    inner = TRANSFORMS[transform](lambda t: (t * 2).sin() * t)
    y = run(lambda t: inner(t).exp(), x)
    y.sum().backward()
    return [y.detach()] + gradients(x)


@pytest.mark.parametrize("transform", ["vmap", "jvp"])
def test_case_19_function_transforms_inside_a_region(setting, transform):
    setting.compare(lambda run: transformed(setting, transform, run))


def torchs_hooks(fn, *args):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return fn(*args)


@pytest.mark.parametrize("transform", ["grad", "vjp", "jacrev", "hessian"])
def test_case_19_what_torch_refuses_under_any_hooks_it_refuses_in_a_region(setting, transform):
    """Torch 2.13 transforms with a backward of their own refuse to start where hooks are set."""
    expected = message_of(RuntimeError, transformed, setting, transform, torchs_hooks)
    for way in WAYS.values():
        assert message_of(RuntimeError, transformed, setting, transform, way) == expected
    assert eventually(lambda: rt.stats().units == 0)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_case_19_a_region_inside_a_function_transform(setting, transform):
    """Torch's own hooks see nothing there; nor do ours."""
    x = setting.random(2, 3)

    def call(run):
        return TRANSFORMS[transform](lambda t: run(lambda u: (u * 2).sin() * u, t))(x)

    expected = call(plain)
    for way in ("swap", "region", "keep"):
        assert_same(expected, call(WAYS[way]), way)


def test_case_19_forward_mode_inside_a_region(setting):
    from torch.autograd import forward_ad

    def scenario(run):
        x = setting.leaf(2, 3)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.full_like(x, 2.0))
            y = run(lambda t: (t * 2).sin() * t.exp(), dual)
            value, tangent = forward_ad.unpack_dual(y)
            value.sum().backward()
            return [value.detach(), tangent.detach()] + gradients(x)

    setting.compare(scenario, ["swap", "region", "keep"])


def layer():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6))


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("way", ["swap", "region", "keep", "checkpoint"])
def test_case_20_a_compiled_module_inside_a_region(cpu_setting, fresh_compiler, way):
    def scenario(run):
        model = layer()
        compiled = torch.compile(model, backend="aot_eager")
        x = cpu_setting.leaf(4, 6)
        for _ in range(2):
            run(compiled, x * 1).sum().backward()
        return gradients(x, *model.parameters())

    cpu_setting.compare(scenario, [way])


@pytest.mark.parametrize("way", ["swap", "checkpoint"])
def test_case_20_a_region_inside_a_compiled_function(cpu_setting, fresh_compiler, way):
    def scenario(run):
        model = layer()
        compiled = torch.compile(lambda t: run(model, t.sin()).cos(), backend="aot_eager")
        x = cpu_setting.leaf(4, 6)
        for _ in range(2):
            compiled(x).sum().backward()
        return gradients(x, *model.parameters())

    cpu_setting.compare(scenario, [way])


@pytest.mark.parametrize("way", ["swap_of_checkpoint"])
def test_case_20_compiled_autograd_gives_the_same(cpu_setting, fresh_compiler, way):
    model = layer()

    def scenario(run):
        model.zero_grad()
        x = cpu_setting.leaf(4, 6)
        if run is plain:
            model(x).sum().backward()
        else:
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
                run(model, x).sum().backward()
        return gradients(x, *model.parameters())

    cpu_setting.compare(scenario, [way])


LAYERS, WIDTH, ROWS = 20, 16, 1024


class Deep(nn.Module):
    """Layers that each save two tensors of ROWS x WIDTH x 4 bytes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))

    def forward(self, x, run):
        for one in self.layers:
            x = run(lambda t, one=one: one(t).tanh(), x)
        return x


def step(model, run):
    x = torch.randn(ROWS, WIDTH, device="emu", generator=torch.Generator("emu").manual_seed(1))
    x.requires_grad_()
    model.zero_grad()
    model(x, run).sum().backward()
    return gradients(x, *model.parameters())


# One activation; plain training holds one for the input and one for each tanh.
ACTIVATION = ROWS * WIDTH * 4


@pytest.mark.parametrize("way", ["swap", "checkpoint_swapped", "checkpoint_of_swap"])
def test_case_22_what_does_not_fit_fits_with_the_engine(emu_setting, way):
    rt.configure(window=2 * ACTIVATION)
    model = Deep().to("emu")
    expected = step(model, plain)
    model.zero_grad()
    # The input; a window leaving and one brought back; and of the layer at work its input, product
    # and output, their gradients, and one of the rerun. Plain training holds 21 and three more.
    emu.set_capacity(emu.memory_allocated() + (1 + 2 + 2 + 7) * ACTIVATION)
    message_of(torch.OutOfMemoryError, step, model, plain)
    model.zero_grad()
    assert_same(expected, step(model, WAYS[way]))


def test_case_22_recompute_alone_fits_too(emu_setting):
    """Layers with more inside than between."""
    model = Deep().to("emu")

    def forward(x, run):
        for one in model.layers:
            x = run(lambda t, one=one: one(t.sin().tanh().sin().tanh()).tanh(), x)
        return x

    def once(run):
        x = torch.randn(ROWS, WIDTH, device="emu", generator=torch.Generator("emu").manual_seed(1))
        x.requires_grad_()
        model.zero_grad()
        forward(x, run).sum().backward()
        return gradients(x, *model.parameters())

    expected = once(plain)
    model.zero_grad()
    emu.set_capacity(emu.memory_allocated() + (LAYERS + 12) * ACTIVATION)
    message_of(torch.OutOfMemoryError, once, plain)
    model.zero_grad()
    assert_same(expected, once(WAYS["checkpoint"]))


def test_case_22_the_peak_obeys_the_window(emu_setting):
    rt.configure(window=2 * ACTIVATION)
    model = Deep().to("emu")
    step(model, WAYS["swap"])
    model.zero_grad()
    start = emu.memory_allocated()
    emu.reset_peak_memory()
    with_swap = step(model, WAYS["swap"])
    peak = emu.max_memory_allocated() - start
    # In forward: a window on its way out, the layer's input, product and output. In backward: a
    # window brought back, the unit in use, gradients of output, product and input. Weights' and
    # the results' gradients are WIDTH x WIDTH x 4 each.
    weights = 2 * LAYERS * WIDTH * WIDTH * 4
    assert peak <= 2 * ACTIVATION + 5 * ACTIVATION + weights
    assert_same(with_swap, step(model, plain))


def test_case_22_nothing_to_do_moves_nothing(setting):
    def scenario(run):
        x = setting.leaf(4, 6)
        if run is not plain:
            y = rt.swap(lambda t: (t * 2).exp() * t, x, policy_fn=must_save)
            assert rt.stats().bytes_out == 0
        else:
            y = (x * 2).exp() * x
        y.sum().backward()
        return gradients(x)

    setting.compare(scenario, ["swap"], moves=())


def test_case_22_recompute_keeps_only_what_goes_in(emu_setting):
    x = emu_setting.leaf(64, 64)
    for way in RECOMPUTES[:1]:
        before = emu.memory_allocated()
        y = WAYS[way](lambda t: (t * 2).exp().sin().exp(), x)
        torch.accelerator.synchronize()
        assert emu.memory_allocated() - before == y.nbytes
        del y
