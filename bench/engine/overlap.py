"""On the virtual clock: the step time of equal layers against its bound, and the memory given up.

Bound = max(forward compute, copies out) + max(backward compute, copies in) + fill and drain.
Compute is that of the plain step on the same clock, copies are bytes moved over bandwidth. Fill and
drain are one layer's share each way: the least that a window of two layers can hide is one of them.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from common import answer, arguments, require, same
from torch import nn

import restow.emulator as emu
import restow.torch as rt
from restow.torch._load import native

LAYERS = 24
BANDWIDTH = 1e9
WARM_UP = 3


class Layer(nn.Module):
    """Saves its input, of the size of its weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width) + 0.01 * torch.randn(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Chain(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer(width) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def set_up(width: int, compute_per_copy: float) -> None:
    emu.reset()
    copy_s = 4 * width * width / BANDWIDTH
    costs: dict[str, float | str] = {"*": 0.0, "mm": compute_per_copy * copy_s}
    emu.configure(h2d=BANDWIDTH, d2h=BANDWIDTH, op_cost=costs)


def run(width: int, swap: bool) -> dict[str, Any]:
    """The last of a few steps: virtual seconds, bytes, gradients."""
    model = Chain(width).to("emu")
    if swap:
        for index, layer in enumerate(model.layers):
            model.layers[index] = rt.swap_wrapper(layer)
    torch.manual_seed(1)
    inputs = torch.randn(width, width)
    weight = torch.ones(width, width).to("emu")
    figures: dict[str, Any] = {}
    for _ in range(WARM_UP + 1):
        model.zero_grad()
        torch.accelerator.synchronize()
        rt.reset_stats()
        emu.restart_clock()
        emu.reset_peak_memory()
        begun = emu.memory_allocated()
        y = model(inputs.to("emu"))  # nobody else holds it: it leaves the device too
        torch.accelerator.synchronize()
        figures = {"forward_s": emu.now()}
        native.drain()  # what is on its way at the end of forward has moved, too
        figures["held_bytes"] = emu.memory_allocated() - begun
        y.backward(weight)
        torch.accelerator.synchronize()
        figures["stats"] = rt.stats()
    figures["peak_bytes"] = emu.max_memory_allocated()
    figures["gradients"] = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
    figures["races"] = len(emu.races())
    return figures


def step_s(width: int, swap: bool) -> float:
    """Of a step that nothing but its own work makes wait: no stop between forward and backward."""
    model = Chain(width).to("emu")
    if swap:
        for index, layer in enumerate(model.layers):
            model.layers[index] = rt.swap_wrapper(layer)
    x = torch.randn(width, width).to("emu")
    weight = torch.ones(width, width).to("emu")
    for _ in range(WARM_UP + 1):
        model.zero_grad()
        torch.accelerator.synchronize()
        emu.restart_clock()
        model(x).backward(weight)
        torch.accelerator.synchronize()
    return emu.now()


def measure(width: int, compute_per_copy: float) -> dict[str, Any]:
    set_up(width, compute_per_copy)
    layer_bytes = 4 * width * width
    rt.configure(window=2 * layer_bytes, min_bytes=0)
    plain, swapped = run(width, False), run(width, True)
    require(same(plain["gradients"], swapped["gradients"]), "swapped gradients differ")
    require(swapped["races"] == 0, "races")
    stats = swapped["stats"]
    moved = stats.bytes_out
    # What is wanted again before its copy has ended is not brought back.
    require(moved >= stats.bytes_in > 0, "nothing was moved")
    forward_s = plain["forward_s"]
    backward_s = step_s(width, False) - forward_s
    copy_s = layer_bytes / BANDWIDTH
    fill_s = min(forward_s / LAYERS, copy_s) + min(backward_s / LAYERS, copy_s)
    out_s, in_s = moved / BANDWIDTH, stats.bytes_in / BANDWIDTH
    bound_s = max(forward_s, out_s) + max(backward_s, in_s) + fill_s
    took_s = step_s(width, True)
    return {
        "compute_per_copy": compute_per_copy,
        "step_s": took_s,
        "bound_s": bound_s,
        "ratio": took_s / bound_s,
        "bar": 1.03,
        "moved_bytes": moved,
        "bytes_in": stats.bytes_in,
        "freed_bytes": plain["held_bytes"] - swapped["held_bytes"],
        "freed_share": (plain["held_bytes"] - swapped["held_bytes"]) / moved,
        "freed_bar": 0.99,
        "peak_bytes": swapped["peak_bytes"],
        "plain_peak_bytes": plain["peak_bytes"],
        "stalls": stats.stalls,
        "stall_s": stats.stall_s,
    }


def define(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--width", type=int, default=512)


if __name__ == "__main__":
    options = arguments(define)
    torch.set_num_threads(1)
    size = 64 if options.small else options.width
    answer([measure(size, ratio) for ratio in (1.0, 2.0, 4.0)])
