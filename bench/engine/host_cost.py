"""Host microseconds per saved tensor: forward and backward of a chain that saves 10,000 tensors.

(with the hooks - without) / tensors, on the real clock with unlimited copy bandwidth, median of the
rounds. Contenders whose package is missing are left out, by name.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import pathlib
import time
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from common import answer, arguments, costs, median, require, same

import restow.emulator as emu
import restow.torch as rt
from restow.torch._load import native

ELEMENTS = 1024  # fp32: 4 KiB
Context = Callable[[], AbstractContextManager[Any]]


def must_swap(tensor: torch.Tensor) -> rt.CheckpointPolicy:
    return rt.CheckpointPolicy.MUST_SWAP


def restow_region() -> AbstractContextManager[Any]:
    """A copy for each tensor."""
    return rt.region("swap", policy_fn=must_swap, name="host cost")


def restow_fused() -> AbstractContextManager[Any]:
    """Small tensors travel together."""
    return rt.region("swap", policy_fn=must_swap, group_swap=True, name="host cost, fused")


def patched_torchtune() -> types.ModuleType | None:
    """Its module with CUDA's names replaced by the emulator's; nothing else is changed."""
    spec = importlib.util.find_spec("torchtune")
    if spec is None or spec.origin is None:
        return None
    path = pathlib.Path(spec.origin).parent / "training" / "_activation_offloading.py"
    text = path.read_text().replace("torch.cuda.", "torch.emu.").replace('"cuda"', '"emu"')
    module = types.ModuleType("torchtune_on_emu")
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def peers() -> dict[str, Context]:
    """Those that can be imported here. TRL and save_on_cpu run as they are."""
    def save_on_cpu(pinned: bool) -> Context:
        return lambda: torch.autograd.graph.save_on_cpu(pin_memory=pinned, device_type="emu")

    found: dict[str, Context] = {
        "save_on_cpu": save_on_cpu(False),
        "save_on_cpu pinned": save_on_cpu(True),
    }
    torchtune = patched_torchtune()
    if torchtune is not None:
        found["torchtune"] = torchtune.OffloadActivations
    if importlib.util.find_spec("trl") is not None:
        from trl.models.activation_offloading import OffloadActivations

        found["trl"] = OffloadActivations
    return found


def step(name: str, context: Context | None, tensors: int) -> tuple[float, torch.Tensor]:
    """Seconds of one forward and backward, and the gradient."""
    native.use_proxy("python" not in name)  # without the settings, whose change costs a pool
    x = torch.linspace(-1, 1, ELEMENTS).to("emu").requires_grad_()
    torch.accelerator.synchronize()
    entered = context() if context is not None else contextlib.nullcontext()
    begun = time.perf_counter()
    with entered:
        y = x
        for _ in range(tensors):
            y = y.sigmoid()
    y.sum().backward()
    torch.accelerator.synchronize()
    took = time.perf_counter() - begun
    assert x.grad is not None
    return took, x.grad.cpu()


def measure(tensors: int, rounds: int) -> dict[str, Any]:
    contenders: dict[str, Context | None] = {
        "none": None,
        "restow proxy fused": restow_fused,
        "restow python fused": restow_fused,
        "restow proxy": restow_region,
        "restow python": restow_region,
        **peers(),
    }
    _, expected = step("none", None, tensors)
    for name, context in contenders.items():
        for _ in range(2):
            _, gradient = step(name, context, tensors)
            require(same([expected], [gradient]), f"the gradient under {name} differs")
    for name in ("restow proxy fused", "restow python fused", "restow proxy", "restow python"):
        rt.reset_stats()
        step(name, contenders[name], tensors)
        require(rt.stats().bytes_out >= 0.9 * 4 * ELEMENTS * tensors, f"{name} moved too little")
    others = [name for name in contenders if name != "none"]
    plain_s, more_s = costs(lambda name: step(name, contenders[name], tensors)[0], others, rounds)
    us = 1e6 / tensors
    return {
        "tensors": tensors,
        "rounds": rounds,
        "plain_us": us * plain_s,
        "us_per_tensor": {name: us * median(more) for name, more in more_s.items()},
        "least_us_per_tensor": {name: us * min(more) for name, more in more_s.items()},
        "missing": [name for name in ("torchtune", "trl") if name not in contenders],
    }


def define(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tensors", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)


if __name__ == "__main__":
    options = arguments(define)
    torch.set_num_threads(1)
    emu.configure(clock="real", schedule="early", h2d=1e18, d2h=1e18)
    rt.configure(keep_last_region=False)
    small = options.small
    answer(measure(200 if small else options.tensors, 2 if small else options.rounds))
