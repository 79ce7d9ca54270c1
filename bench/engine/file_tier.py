"""Training on CPU tensors, plainly or with the file tier: peak resident bytes, seconds of a step.

  --way plain|swap   the peak is that of the whole process, first step included
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import time

import torch
from common import answer, arguments, require
from torch import nn

import restow.torch as rt

WIDTH = 256


class Layer(nn.Module):
    """Saves its input and no more; weights are small."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(WIDTH) + 0.01 * torch.randn(WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def train(way: str, layers: int, rows: int, steps: int) -> tuple[float, str]:
    torch.manual_seed(0)
    blocks = [Layer() for _ in range(layers)]
    if way == "swap":
        model = nn.Sequential(*(rt.swap_wrapper(block) for block in blocks))
    else:
        model = nn.Sequential(*blocks)
    x = torch.randn(rows, WIDTH)
    took = 0.0
    for _ in range(steps):
        model.zero_grad()
        begun = time.perf_counter()
        y = model(x)
        y.backward(torch.ones_like(y))
        took = time.perf_counter() - begun
        del y
    digest = hashlib.sha256()
    for parameter in model.parameters():
        assert parameter.grad is not None
        digest.update(parameter.grad.numpy().tobytes())
    return took, digest.hexdigest()


def define(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--way", choices=["plain", "swap"], required=True)
    parser.add_argument("--dir", required=True, help="where the file tier keeps its files")
    parser.add_argument("--layers", type=int, default=52)
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--steps", type=int, default=3)


if __name__ == "__main__":
    options = arguments(define)
    if options.small:
        options.layers, options.rows = 6, 2048
    layer_bytes = 4 * WIDTH * options.rows
    rt.configure(file_dir=options.dir, window=2 * layer_bytes)
    seconds, digest_text = train(options.way, options.layers, options.rows, options.steps)
    stats = rt.stats()
    if options.way == "swap":
        require(stats.bytes_out > 0, "nothing was moved")
    answer(
        {
            "step_s": seconds,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "saved_bytes": layer_bytes * options.layers,
            "bytes_out_per_step": stats.bytes_out / options.steps,
            "bytes_in_per_step": stats.bytes_in / options.steps,
            "digest": digest_text,
        }
    )
