"""What users of other offloading tools reported: lifetime, aliasing and identity (B1 to B15)."""

import gc
import weakref

import pytest
import torch
from helpers import (
    SWAPS,
    WAYS,
    Recorder,
    assert_same,
    checkpoint,
    eventually,
    gradients,
    must_swap,
    settle,
    swap,
)
from torch import nn

import restow.emulator as emu
import restow.torch as rt


class ReturnsAViewOfWhatItSaved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        (scale,) = ctx.saved_tensors
        return scale.view(-1).view(scale.shape), None


def test_b1_a_node_that_returns_a_view_of_what_it_unpacked(setting):
    """Freed memory is poisoned on emu: a view that outlived its buffer would read NaN."""

    def scenario(run):
        x, scale = setting.leaf(6, 5), setting.random(6, 5)

        def fn(t):
            y = ReturnsAViewOfWhatItSaved.apply(t.exp(), (scale * 2))
            return y

        run(fn, x).sum().backward()
        return gradients(x)

    setting.compare(scenario)


def test_b1_a_recompute_that_saves_a_view_of_a_reloaded_input(setting):
    def scenario(run):
        x = setting.leaf(6, 4)
        h = x * 2
        y = run(lambda t: t.view(4, 6).sin() * t.view(4, 6)[:, :1], h)
        y.exp().sum().backward()
        return gradients(x)

    setting.compare(scenario)


def test_b2_a_storage_at_the_address_of_a_dead_one_is_another(setting):
    """The CPU's allocator hands an address out again at once; on emu that is up to the heap."""
    x = setting.leaf(4, 4096)
    found, seen = [], []
    with rt.region("swap", policy_fn=must_swap):
        outputs = []
        for value in range(12):
            t = torch.full((4096,), float(value), device=setting.device)
            seen.append(t.data_ptr())
            outputs.append(Recorder.apply(x, lambda s, v=value: found.append((v, s[0].clone())), t))
            del t
    torch.stack(outputs).sum().backward()
    assert len(found) == 12
    for value, t in found:
        assert_same(torch.full((4096,), float(value), device=setting.device), t)
    if setting.device == "cpu":
        assert len(seen) == 12


@pytest.mark.parametrize("way", WAYS)
def test_b4_a_tensor_shared_by_all_layers_stays_readable(setting, way):
    angles = setting.random(6)
    cos = angles.cos()
    before = cos.clone()
    x = setting.leaf(4, 6)
    y = x
    for _ in range(4):
        y = WAYS[way](lambda t: (t * cos).sin(), y)
        assert_same(before, cos)
    y.sum().backward()
    assert_same(before, cos)
    t = x.detach().requires_grad_()
    z = t
    for _ in range(4):
        z = (z * before).sin()
    z.sum().backward()
    assert_same(gradients(t), gradients(x))


@pytest.mark.parametrize("way", SWAPS)
def test_b5_a_view_that_is_the_last_holder_frees_the_base(emu_setting, way):
    x = emu_setting.leaf(4)
    base = emu_setting.random(64, 1024)
    view = base[:, 10:1000]
    before = emu.memory_allocated()
    y = WAYS[way](Recorder.apply, x, lambda saved: None, view)
    size = base.nbytes
    del base, view
    torch.accelerator.synchronize()
    rt.stats()
    # What the engine has seen done is given up at its next call.
    z = WAYS[way](torch.sin, x)
    del z
    assert before - emu.memory_allocated() == size - y.nbytes
    del y


def test_b6_who_else_holds_a_swapped_storage_is_counted(emu_setting):
    x = emu_setting.leaf(64, 64)
    h = x * 2
    y = swap(torch.sin, h)
    torch.accelerator.synchronize()
    swap(torch.sin, x * 1)
    assert rt.stats().held_elsewhere_bytes == h.nbytes
    del h
    assert rt.stats().held_elsewhere_bytes == 0
    del y


def test_b7_two_regions_that_save_one_storage_move_it_once(setting):
    x = setting.leaf(8, 8)
    h = x * 2
    rt.reset_stats()
    a = swap(torch.sin, h)
    b = swap(torch.cos, h)
    assert rt.stats().bytes_out == h.nbytes
    (a + b).sum().backward()
    t = h.detach()
    assert_same([(t.cos() + -t.sin()) * 2], gradients(x))


def test_b9_tensors_come_back_on_their_own_device(emu_setting):
    x = emu_setting.leaf(4, 5)
    on_cpu, on_other = torch.randn(4, 5), torch.randn(4, 5).to("emu:1")
    devices = []

    def note(saved):
        devices.extend(str(t.device) for t in saved)

    y = swap(Recorder.apply, x, note, on_cpu, on_other, x * 2)
    y.sum().backward()
    assert devices == ["cpu", "emu:1", "emu:0"]


def test_b47_outputs_stay_on_their_device(setting):
    for way in WAYS.values():
        y = way(lambda t: {"out": (t * 2).exp(), "more": [t.sin()]}, setting.leaf(4, 5))
        assert y["out"].device.type == setting.device
        assert y["more"][0].device.type == setting.device
        del y


def test_b10_weights_are_never_packed(setting):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32).requires_grad_(False))
    model.to(setting.device)
    x = setting.leaf(2, 32) * 1
    asked = []
    rt.reset_stats()

    def policy(tensor):
        asked.append(tensor.shape)
        return rt.CheckpointPolicy.MUST_SWAP

    y = rt.swap(model, x, policy_fn=policy)
    # Both weights are saved, and so is x; nothing else.
    assert asked == [x.shape]
    assert rt.stats().bytes_out == x.nbytes
    del y


def test_b11_a_parameter_gathered_and_viewed_is_recognised_by_its_storage(setting):
    """As FSDP2: the module's parameter is a view of a flat buffer filled before the forward."""
    torch.manual_seed(0)
    model = nn.Linear(6, 6, bias=False).to(setting.device)
    flat = model.weight.detach().clone().view(-1)
    model.weight = nn.Parameter(flat.as_strided((6, 6), (6, 1)))
    x = setting.leaf(4, 6) * 1
    rt.reset_stats()
    y = swap(model, x)
    assert rt.stats().bytes_out == x.nbytes
    del y


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backward", [True, False])
def test_b12_what_was_packed_dies_without_the_garbage_collector(setting, way, backward):
    watched = []

    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            watched.append(weakref.ref(ctx))
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = setting.leaf(4, 5)
    settle()
    gc.collect()
    gc.disable()
    try:
        before = emu.memory_allocated()
        y = WAYS[way](lambda t: Saves.apply(t * 2) * 3, x)
        if backward:
            y.sum().backward()
            x.grad = None
        del y
        assert watched
        assert eventually(lambda: not any(reference() for reference in watched))
        assert eventually(lambda: rt.stats().units == 0)
        settle()
        assert eventually(lambda: emu.memory_allocated() == before)
    finally:
        gc.enable()


def live_tensors():
    return sum(1 for o in gc.get_objects() if type(o) is torch.Tensor)


@pytest.mark.parametrize("way", WAYS)
def test_b14_no_tensor_is_left_per_step(two_settings, way):
    layers = [nn.Linear(4, 4).to(two_settings.device) for _ in range(2)]
    x = two_settings.leaf(2, 4)
    counts = []
    for index in range(200):
        y = x
        for layer in layers:
            y = WAYS[way](layer, y)
        y.sum().backward()
        del y
        if index in (3, 199):
            gc.collect()
            counts.append((live_tensors(), rt.stats().units, rt.stats().host_used_bytes))
    assert counts[0] == counts[1]
    assert counts[1][1:] == (0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_b15_fifty_forwards_without_backward_leave_nothing(two_settings, way):
    layer = nn.Sequential(nn.Linear(16, 16), nn.Tanh()).to(two_settings.device)
    x = two_settings.leaf(8, 16)
    WAYS[way](layer, x)
    before = emu.memory_allocated()
    for _ in range(50):
        WAYS[way](layer, x)
    torch.accelerator.synchronize()
    assert emu.memory_allocated() == before
    assert (rt.stats().units, rt.stats().host_used_bytes) == (0, 0)


def test_b15_fifty_forwards_whose_graphs_are_kept_and_then_dropped(setting):
    layer = nn.Sequential(nn.Linear(16, 16), nn.Tanh()).to(setting.device)
    x = setting.leaf(8, 16)
    graphs = [checkpoint(swap, layer, x) for _ in range(25)] + [swap(layer, x) for _ in range(25)]
    assert rt.stats().units > 0
    graphs.clear()
    assert (rt.stats().units, rt.stats().host_used_bytes) == (0, 0)
