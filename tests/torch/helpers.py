"""Runs a scenario plainly and inside regions, and compares what comes out bit for bit.

A scenario is a function of ``run``, which calls a function in one of the `WAYS`; it returns the
tensors and values to compare, in any nesting.
"""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple

import torch
from torch.utils import _pytree as pytree

import restow.emulator as emu
import restow.torch as rt
from restow.torch._load import native

ROOT = pathlib.Path(__file__).resolve().parents[2]


def must_swap(tensor):
    return rt.CheckpointPolicy.MUST_SWAP


def must_save(tensor):
    return rt.CheckpointPolicy.MUST_SAVE


def plain(fn, *args, **kwargs):
    return fn(*args, **kwargs)


def swap(fn, *args, **kwargs):
    return rt.swap(fn, *args, policy_fn=must_swap, **kwargs)


def region(fn, *args, **kwargs):
    with rt.region("swap", policy_fn=must_swap):
        return fn(*args, **kwargs)


def keep(fn, *args, **kwargs):
    with rt.region("keep"):
        return fn(*args, **kwargs)


def checkpoint(fn, *args, **kwargs):
    return rt.checkpoint(fn, *args, **kwargs)


def checkpoint_swapped(fn, *args, **kwargs):
    return rt.checkpoint(fn, *args, swap_inputs=True, **kwargs)


def swap_of_checkpoint(fn, *args, **kwargs):
    return swap(checkpoint, fn, *args, **kwargs)


def checkpoint_of_swap(fn, *args, **kwargs):
    return checkpoint(swap, fn, *args, **kwargs)


WAYS = {
    way.__name__: way
    for way in (
        swap,
        region,
        keep,
        checkpoint,
        checkpoint_swapped,
        swap_of_checkpoint,
        checkpoint_of_swap,
    )
}
# These move every tensor saved in them that may be moved, whatever the engine has learnt.
SWAPS = ("swap", "region")
RECOMPUTES = ("checkpoint", "checkpoint_swapped", "swap_of_checkpoint", "checkpoint_of_swap")


def defaults(folder, hooks):
    """The settings every test starts from: a file tier, and no tensor too small to move."""
    rt.configure(
        file_dir=folder,
        file_cap="64GiB",
        host_cap="64GiB",
        window="512MiB",
        min_bytes=0,
        keep_last_region=True,
        hooks=hooks,
    )


def settle():
    """Waits for the devices and gives back what was held for copies under way."""
    torch.accelerator.synchronize()
    native.drain()


def eventually(condition, seconds=10.0):
    """Is it true, now or soon? Torch's thread of a device drops a graph a moment after backward."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def expect_changes_under_a_copy():
    """Takes the races of a test that changes a saved tensor, which a copy may still be reading."""
    kinds = {race.kind for race in emu.races()}
    emu.clear_races()
    assert kinds <= {"missing wait before reuse"}, kinds


class Row(NamedTuple):
    """One line of `restow.torch.explain`."""

    label: str
    bytes: int
    decision: str
    reason: str


def explained():
    return [Row(*row) for row in rt.explain()]


def bits(tensor):
    """The bytes of a tensor's values in their logical order, on the CPU."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor).reshape(-1)
    return tensor.view(torch.uint8)


def assert_same(expected, actual, what=""):
    """Equal structure, types, shapes and bits."""
    left, left_shape = pytree.tree_flatten(expected)
    right, right_shape = pytree.tree_flatten(actual)
    assert left_shape == right_shape, what
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        where = f"{what}, item {index}"
        assert type(a) is type(b), where
        if not isinstance(a, torch.Tensor):
            assert a == b, where
            continue
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device), where
        assert torch.equal(bits(a), bits(b)), f"{where}: {a} is not {b}"


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where a test runs: the device, when its copies are done, and which hooks see the tensors."""

    device: str
    schedule: str | None
    hooks: str

    @property
    def on_emu(self):
        return self.device == "emu"

    def compare(self, scenario, ways=tuple(WAYS), moves=SWAPS, seed=0):
        """Runs `scenario` plainly, then in each way; `moves`: the ways in which bytes must move."""
        torch.manual_seed(seed)
        expected = scenario(plain)
        assert pytree.tree_leaves(expected), "a scenario that returns nothing proves nothing"
        for way in ways:
            rt.reset_stats()
            torch.manual_seed(seed)
            actual = scenario(WAYS[way])
            stats = rt.stats()
            assert_same(expected, actual, way)
            assert eventually(lambda: rt.stats().units == 0), f"{way} left {stats.units} units"
            if way in moves:
                assert stats.bytes_out > 0, f"{way} moved nothing"

    def leaf(self, *shape, dtype=torch.float32):
        """A random tensor that wants a gradient."""
        return torch.randn(*shape, dtype=dtype, device=self.device).requires_grad_()

    def random(self, *shape, dtype=torch.float32):
        return torch.randn(*shape, dtype=dtype, device=self.device)


SETTINGS = {
    "cpu-proxy": Setting("cpu", None, "proxy"),
    "cpu-python": Setting("cpu", None, "python"),
    "emu-early-proxy": Setting("emu", "early", "proxy"),
    "emu-late-proxy": Setting("emu", "late", "proxy"),
    "emu-random-python": Setting("emu", "random", "python"),
    "emu-late-python": Setting("emu", "late", "python"),
}


def gradients(*tensors):
    """The gradients accumulated so far, as tensors of their own; None where there is none."""
    return [None if t.grad is None else t.grad.detach().clone() for t in tensors]


class Recorder(torch.autograd.Function):
    """Saves tensors and passes its first argument through; backward notes what came back.

    ``Recorder.apply(x, note, *saved)``; `note` is called with the tuple of unpacked tensors.
    """

    @staticmethod
    def forward(ctx, x, note, *saved):
        ctx.save_for_backward(*saved)
        ctx.note = note
        ctx.count = len(saved)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.note(ctx.saved_tensors)
        return (grad, None) + (None,) * ctx.count


class Boom(Exception):
    """What the tests throw."""


class FailingBackward(torch.autograd.Function):
    """The identity, whose backward raises `Boom` as long as ``armed()``."""

    @staticmethod
    def forward(ctx, x, armed):
        ctx.armed = armed
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if ctx.armed():
            raise Boom("in backward")
        return grad * torch.ones_like(x), None


@contextlib.contextmanager
def boom():
    """Expects `Boom`, and keeps nothing of it: an exception at hand holds the frames it crossed."""
    raised = False
    try:
        yield
    except Boom:
        raised = True
    assert raised, "nothing was raised"


def message_of(kind, call, *args, **kwargs):
    """The text of the exception of `kind` that ``call(...)`` raises; holds nothing of it."""
    try:
        call(*args, **kwargs)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


def script(code, timeout=120, **environment):
    """Runs Python code in a process of its own."""
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests" / "torch")])
    return subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
