"""Nothing to do: every answer is MUST_SAVE. Steps of a model with swap wrappers, or without.

The first step, in which the order is learnt, is not counted. Under callgrind with instrumentation
off at the start, --callgrind switches it on for the steps that are. Under a counter of the whole
process, the difference of two --steps is that of the steps. Prints CPU seconds of the steps too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time

import torch
from common import answer, arguments, require
from torch import nn

import restow.torch as rt

LAYERS = 8
LAYER_S = 1e-3
"""The least that a layer's forward is to take."""


def layer() -> nn.Module:
    return nn.Sequential(nn.Linear(512, 512), nn.GELU())


def rows(small: bool) -> int:
    """So many that a layer takes at least a millisecond, or the number given."""
    if small:
        return 64
    count, took, one = 64, 0.0, layer()
    while took < LAYER_S:
        count *= 2
        x = torch.randn(count, 512)
        one(x)
        begun = time.process_time()
        for _ in range(5):
            one(x)
        took = (time.process_time() - begun) / 5
    return count


def must_save(tensor: torch.Tensor) -> rt.CheckpointPolicy:
    return rt.CheckpointPolicy.MUST_SAVE


def model(wrapped: bool) -> nn.Module:
    torch.manual_seed(0)
    layers = [layer() for _ in range(LAYERS)]
    if wrapped:
        return nn.Sequential(*(rt.swap_wrapper(one, policy_fn=must_save) for one in layers))
    return nn.Sequential(*layers)


def instrument(on: bool) -> None:
    """Switches callgrind's instrumentation of this process."""
    command = ["callgrind_control", "-i", "on" if on else "off", str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"callgrind_control failed: {done.stdout}{done.stderr}")


def train(
    wrapped: bool, count: int, steps: int, callgrind: bool
) -> tuple[float, list[torch.Tensor]]:
    """CPU seconds of the steps; the gradients after them."""
    net = model(wrapped)
    x = torch.randn(count, 512)

    def step() -> None:
        net.zero_grad()
        net(x).sum().backward()

    step()
    if callgrind:
        instrument(True)
    begun = time.process_time()
    for _ in range(steps):
        step()
    took = time.process_time() - begun
    if callgrind:
        instrument(False)
    return took, [p.grad for p in net.parameters() if p.grad is not None]


def define(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="of the input; so many that layers take 1 ms")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--wrapped", action="store_true")
    parser.add_argument("--callgrind", action="store_true")
    parser.add_argument("--calibrate", action="store_true", help="answers the rows, nothing else")


if __name__ == "__main__":
    options = arguments(define)
    torch.set_num_threads(1)
    chosen = options.rows or rows(options.small)
    with tempfile.TemporaryDirectory() as folder:
        rt.configure(file_dir=folder)
        if options.calibrate:
            answer({"rows": chosen})
        else:
            seconds, gradients = train(options.wrapped, chosen, options.steps, options.callgrind)
            stats = rt.stats()
            require(stats.bytes_out == stats.bytes_in == 0, "something was moved")
            digest = float(sum(g.double().sum() for g in gradients))
            answer({"cpu_s": seconds, "digest": digest, "bytes_out": stats.bytes_out})
