"""What users of other offloading tools reported: streams, events and pools (B16 to B25)."""

import itertools

import pytest
import torch
from helpers import (
    SWAPS,
    WAYS,
    assert_same,
    explained,
    gradients,
    message_of,
    must_swap,
    plain,
    script,
    swap,
)
from torch import nn

import restow
import restow.emulator as emu
import restow.torch as rt


@pytest.mark.parametrize("way", SWAPS)
def test_b16_an_unpack_right_behind_a_slow_copy_out(emu_setting, way):
    emu.configure(d2h="100KB/s", h2d="100KB/s")

    def scenario(run):
        x = emu_setting.leaf(32, 32)
        y = run(lambda t: (t * 2).exp().sin() * t, x)
        grads = torch.autograd.grad(y.sum(), [x])
        return [g.clone() for g in grads]

    emu_setting.compare(scenario, [way])


def test_b16_what_came_back_is_read_by_two_streams(emu_setting):
    emu.configure(d2h="100KB/s", h2d="100KB/s")
    x = emu_setting.leaf(16, 16)
    y = swap(lambda t: (t * 2).exp(), x)
    result = y.detach().clone()
    torch.accelerator.synchronize()
    swap(torch.sin, x * 1)
    streams = [torch.Stream(device="emu") for _ in range(2)]
    reads = []
    for stream in streams:
        stream.wait_stream(torch.accelerator.current_stream())
        with stream:
            reads.append(y.grad_fn._saved_result + 0)
    for stream in streams:
        torch.accelerator.current_stream().wait_stream(stream)
    torch.accelerator.synchronize()
    assert_same([result, result], [r.detach() for r in reads])
    del y, reads


@pytest.mark.parametrize("way", WAYS)
def test_b19_the_result_of_an_asynchronous_collective_is_waited_for(cpu_setting, tmp_path, way):
    from torch import distributed
    from torch.distributed import _functional_collectives as collectives

    store = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:

        def scenario(run):
            x = cpu_setting.leaf(4, 6)
            gathered = collectives.all_gather_tensor(torch.arange(24.0).view(4, 6), 0, [0])
            run(lambda t: (t * gathered).sin() * gathered, x).sum().backward()
            return gradients(x)

        cpu_setting.compare(scenario, [way], moves=())
    finally:
        distributed.destroy_process_group()


class Stack(nn.Module):
    def __init__(self, run, layers=6, width=32):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.run = run

    def forward(self, x):
        for layer in self.layers:
            x = self.run(lambda t, layer=layer: layer(t).tanh(), x)
        return x


def test_b20_a_steady_state_allocates_no_host_memory(setting):
    model = Stack(swap).to(setting.device)
    x = setting.random(16, 32)
    for index in range(8):
        if index == 2:
            rt.reset_stats()
        model(x).sum().backward()
    assert rt.stats().bytes_out > 0
    assert rt.stats().host_allocations == 0


def test_b20_a_steady_state_never_makes_the_host_wait(emu_setting):
    # An activation is 2 KiB: a copy takes 1 us, an operator 20 us.
    emu.configure(d2h="2GB/s", h2d="2GB/s", op_cost="20us")
    model = Stack(swap).to("emu")
    x = emu_setting.random(16, 32)
    for _ in range(3):
        model(x).sum().backward()
    torch.accelerator.synchronize()
    emu.restart_clock()
    for _ in range(4):
        model(x).sum().backward()
    assert emu.host_wait() == 0
    torch.accelerator.synchronize()


def test_b21_a_forward_does_not_wait_for_its_copies_out(emu_setting):
    """Each copy takes 20 ms of the modelled time; launches take none."""
    emu.configure(d2h="100KB/s")
    model = Stack(swap).to("emu")
    x = emu_setting.random(16, 32)
    torch.accelerator.synchronize()
    emu.restart_clock()
    y = model(x)
    assert emu.now() < 1e-3
    del y


def test_b22_the_peak_is_flat_over_a_hundred_steps(emu_setting):
    model = Stack(swap).to("emu")
    x = emu_setting.random(16, 32)
    peaks = []
    for _ in range(100):
        emu.reset_peak_memory()
        model(x).sum().backward()
        peaks.append((emu.max_memory_allocated(), torch.emu.max_memory_reserved()))
    assert max(peaks[5:]) == min(peaks[5:]) or emu_setting.schedule == "random"
    assert max(p[0] for p in peaks[5:]) <= max(p[0] for p in peaks[:5])


def test_b22_the_host_pool_does_not_grow_over_a_hundred_steps(setting):
    model = Stack(swap, layers=3).to(setting.device)
    x = setting.random(16, 32)
    reserved = []
    for _ in range(100):
        model(x).sum().backward()
        reserved.append(rt.stats().host_reserved_bytes)
    assert max(reserved[5:]) <= max(reserved[:5])


def test_b24_a_group_can_be_named_and_holds_what_is_saved_in_it(setting):
    x = setting.leaf(4, 6)
    with rt.group("first"), rt.region("swap", policy_fn=must_swap):
        y = (x * 2).exp()
    assert any(row.label.startswith("first") for row in explained())
    y.sum().backward()
    assert_same([(x.detach() * 2).exp() * 2], gradients(x))


CALLS = ("launch_offload", "wait_offload", "launch_load", "wait_load")


@pytest.mark.parametrize("order", itertools.product(CALLS, repeat=2), ids="-".join)
def test_b24_any_two_calls_of_a_group_work_or_are_a_defined_error(two_settings, order):
    manager = rt.SwapManager()
    x = two_settings.leaf(4, 6)
    with manager.group_context("by hand"), rt.region("swap", policy_fn=must_swap):
        y = (x * 2).exp()
    for call in order:
        try:
            getattr(manager, call)("by hand")
        except restow.Error as error:
            assert "by hand" in str(error) and "allowed" in str(error)
    y.sum().backward()
    assert_same([(x.detach() * 2).exp() * 2], gradients(x))
    manager.abort_group("by hand")
    assert manager.active_group_count() == 0


@pytest.mark.parametrize("call", CALLS)
def test_b24_a_call_for_a_group_nobody_made_is_an_error(two_settings, call):
    text = message_of(restow.Error, getattr(rt.SwapManager(), call), "nobody")
    assert "nobody" in text


@pytest.mark.parametrize("way", SWAPS)
def test_b25_one_stream_for_everything_does_not_hang(emu_setting, way):
    """As on devices that have no side streams."""
    emu.configure(one_stream=True)

    def scenario(run):
        model = Stack(run).to("emu")
        x = emu_setting.random(16, 32)
        for _ in range(3):
            model(x).sum().backward()
        return gradients(*model.parameters())

    emu_setting.compare(scenario, [way], moves=())


def test_b25_devices_without_pinned_memory(emu_setting):
    emu.configure(pinned=False)

    def scenario(run):
        model = Stack(run).to("emu")
        x = emu_setting.random(16, 32)
        for _ in range(3):
            model(x).sum().backward()
        return gradients(*model.parameters())

    emu_setting.compare(scenario)


def test_b25_devices_with_layouts_of_their_own_are_refused_and_recompute_works(emu_setting):
    emu.configure(opaque=True)
    # The engine probes a device once for each set of settings.
    rt.configure(window="511MiB")
    x = emu_setting.leaf(4, 6)
    assert "opaque" in message_of(restow.Unsupported, swap, torch.exp, x)

    def scenario(run):
        model = Stack(run).to("emu")
        x = emu_setting.random(16, 32)
        model(x).sum().backward()
        return gradients(*model.parameters())

    emu_setting.compare(scenario, ["keep", "checkpoint"])


ASYNCHRONOUS = """
import torch
import restow.emulator as emu
import restow.torch as rt
emu.configure(d2h="1MB/s")
x = torch.randn(512, 64, device="emu", requires_grad=True)
torch.accelerator.synchronize()
y = rt.swap(torch.exp, x * 1, policy_fn=lambda t: rt.CheckpointPolicy.MUST_SWAP)
# The copy out of 131,072 bytes takes 0.131 s; the engine's own probes may wait for microseconds.
assert rt.stats().bytes_out == 131072
assert emu.host_wait() < 0.01, emu.host_wait()
assert emu.pinned_memory_allocated() > 0
print("done", flush=True)
"""


@pytest.mark.parametrize("hooks", ["proxy", "python"])
def test_b21_the_first_copy_of_a_process_is_asynchronous(hooks):
    """Nothing in it has asked for pinned memory before."""
    done = script(ASYNCHRONOUS, RESTOW_HOOKS=hooks)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_b22_copies_and_operators_overlap(emu_setting):
    """Six layers whose forward takes as long as their copies: far less than one after the other."""
    emu.configure(op_cost={"addmm": "20us", "mm": "20us"}, d2h="100MB/s", h2d="100MB/s")

    def timed(run):
        model = Stack(run).to("emu")
        x = emu_setting.random(16, 32)
        for _ in range(3):
            model(x).sum().backward()
        torch.accelerator.synchronize()
        emu.restart_clock()
        model(x).sum().backward()
        torch.accelerator.synchronize()
        return emu.now()

    alone = timed(plain)
    rt.reset_stats()
    together = timed(swap)
    # 6 activations of 2 KiB a step, 20.48 us each out and in, besides the operators' own time.
    one_after_the_other = alone + 2 * 6 * 20.48e-6
    assert rt.stats().bytes_out > 0
    assert together < one_after_the_other * 0.8
