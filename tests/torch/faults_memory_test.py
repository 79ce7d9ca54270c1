"""Memory that runs out, in the pool, on the device and for pinning; and files of the tier."""

import pathlib

import pytest
import torch
from helpers import (
    Recorder,
    assert_same,
    eventually,
    gradients,
    message_of,
    plain,
    script,
    swap,
)

import restow.emulator as emu
import restow.torch as rt


def work(t):
    return (t * 2).exp().sin() * t


def gradient_of_work(x):
    t = x.detach().requires_grad_()
    work(t).sum().backward()
    return gradients(t)


HOST_FULL = """
import torch
from helpers import eventually, explained
import restow.emulator as emu
import restow.torch as rt
rt.configure(host_cap=8192, min_bytes=0, hooks={hooks!r})
emu.configure(schedule={schedule!r}, seed=1)
must = lambda t: rt.CheckpointPolicy.MUST_SWAP
work = lambda t: (t * 2).exp().sin() * t
x = torch.randn(64, 64, device="emu", requires_grad=True)
small = torch.randn(8, 8, device="emu", requires_grad=True)
with rt.region("swap", policy_fn=must, name="large"):
    y = work(x)
with rt.region("swap", policy_fn=must, name="small"):
    z = work(small)
rows = explained()
kept = [row for row in rows if row.decision == "kept"]
assert kept and all(row.label.startswith("large") for row in kept), rows
assert all("host" in row.reason for row in kept), kept
assert 0 < rt.stats().bytes_out <= 8192
(y.sum() + z.sum()).backward()
for leaf in (x, small):
    t = leaf.detach().requires_grad_()
    work(t).sum().backward()
    assert torch.equal(t.grad.cpu(), leaf.grad.cpu())
del y, z
assert eventually(lambda: rt.stats().units == 0)
assert emu.races() == []
print("done")
"""


@pytest.mark.parametrize(("schedule", "hooks"), [("late", "proxy"), ("random", "python")])
def test_with_host_memory_exhausted_tensors_stay_and_it_is_said(schedule, hooks):
    done = script(HOST_FULL.format(schedule=schedule, hooks=hooks))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_with_host_memory_exhausted_a_file_tier_takes_the_rest(emu_setting):
    rt.configure(host_cap=32768)
    x = emu_setting.leaf(64, 64)
    rt.reset_stats()
    outputs = [swap(work, x * factor) for factor in (1, 2, 3)]
    rt.stats()
    sum(y.sum() for y in outputs).backward()
    t = x.detach().requires_grad_()
    sum(work(t * factor).sum() for factor in (1, 2, 3)).backward()
    assert_same(gradients(t), gradients(x))
    assert rt.stats().bytes_out > 0


NO_PINS = """
import torch
import restow.emulator as emu
import restow.torch as rt
from helpers import SETTINGS, assert_same, eventually, gradients, plain, settle, swap

setting = SETTINGS[{name!r}]
rt.configure(min_bytes=0, hooks=setting.hooks)
emu.configure(schedule=setting.schedule, seed=1, pinned_capacity={capacity})

def train(run):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64).to("emu") for _ in range(4)]
    x = y = setting.leaf(512, 64)
    for layer in layers:
        y = run(lambda t, layer=layer: layer(t).tanh(), y)
    y.sum().backward()
    return gradients(x, *(p for layer in layers for p in layer.parameters()))

assert_same(train(plain), train(swap))
stats = rt.stats()
assert stats.bytes_out > 0
assert stats.pin_failures > 0, stats
settle()
assert eventually(lambda: rt.stats().units == 0)
assert emu.races() == []
print("done", flush=True)
"""


@pytest.mark.parametrize("name", ["emu-late-proxy", "emu-random-python"])
def test_b40_memory_that_cannot_be_pinned_is_counted_and_the_gradients_are_right(name):
    """In a process of its own: pinned memory that others gave back would be taken again."""
    # Enough for the engine's probe of the device, not for one activation.
    done = script(NO_PINS.format(name=name, capacity=65536))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def fill(bytes_left):
    """Takes all device memory but so many bytes."""
    size = torch.emu.mem_get_info(0)[0] - bytes_left
    return torch.empty(size, dtype=torch.uint8, device="emu")


def test_device_memory_exhausted_in_unpack_is_torchs_error_and_a_step_can_follow(emu_setting):
    x = emu_setting.leaf(64, 64)
    y = swap(lambda t: (t * 2).exp().sin(), x)
    z = swap(torch.sin, x * 1)
    torch.accelerator.synchronize()
    rt.stats()
    swap(torch.sin, x * 1)
    emu.set_capacity(emu.memory_allocated() + 1024)
    message_of(torch.OutOfMemoryError, y.sum().backward)
    assert x.grad is None
    del y, z
    emu.set_capacity("1GiB")
    swap(work, x).sum().backward()
    assert_same(gradient_of_work(x), gradients(x))
    assert eventually(lambda: rt.stats().units == 0)


def test_device_memory_short_in_unpack_releases_what_was_prefetched_and_goes_on(emu_setting):
    size = 64 * 64 * 4
    torch.manual_seed(0)
    x = emu_setting.leaf(64, 64)

    def forward(run):
        y = x
        for _ in range(6):
            y = run(lambda t: t.sin(), y)
        return y

    def once(run, room=None):
        x.grad = None
        y = forward(run)
        torch.accelerator.synchronize()
        filler = None
        if room is not None:
            loss = y.sum()
            del y
            filler = fill(room)
        else:
            loss = y.sum()
        loss.backward()
        del filler
        return gradients(x)

    emu.set_capacity("16MiB")
    expected = once(plain)
    for _ in range(2):
        once(swap)
    # The unit in use, two gradients of this size, and the scalar's: no room to prefetch far ahead.
    assert_same(expected, once(swap, room=6 * size))


def test_the_file_tiers_files_are_gone_when_nothing_is_held(cpu_setting, file_folder):
    x = cpu_setting.leaf(64, 64)
    y = swap(work, x)
    y.sum().backward()
    del y
    x.grad = None
    done = script(
        f"""
import pathlib, torch, tempfile
import restow.torch as rt
folder = tempfile.mkdtemp(dir={str(file_folder)!r})
rt.configure(file_dir=folder, min_bytes=0)
x = torch.randn(64, 64, requires_grad=True)
y = rt.swap(lambda t: t.exp().sin(), x * 1, policy_fn=lambda t: rt.CheckpointPolicy.MUST_SWAP)
print(folder)
"""
    )
    assert done.returncode == 0, done.stderr
    left = [p for p in pathlib.Path(done.stdout.strip()).rglob("*") if p.is_file()]
    assert left == []


def test_saved_values_come_back_from_wherever_they_were(setting):
    """The pattern of every byte, through the tier or the host and back."""
    x = setting.leaf(3)
    original = torch.arange(65536, dtype=torch.int32, device=setting.device)
    found = []
    y = swap(Recorder.apply, x, lambda saved: found.append(saved[0].clone()), original * 1)
    torch.accelerator.synchronize()
    swap(torch.sin, x * 1)
    y.sum().backward()
    assert_same([original], found)
