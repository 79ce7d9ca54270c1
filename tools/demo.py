#!/usr/bin/env python3
"""A tour on the emulated accelerator: a transformer that does not fit, made to fit five ways.

  demo.py [--small]     --small: a smaller model, for tests

Every way trains the same model from the same start, under the device's memory; gradients and
parameters are compared bit for bit with training on a device without that limit. Times are on the
emulator's virtual clock, of the third step: the order of tensors is learnt in the first.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch

import restow
import restow.emulator as emu
import restow.torch as rt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples" / "torch"))
import tiny  # noqa: E402

STEPS = 3
MIB = float(1 << 20)
# Seconds of a matrix product, and bytes per second of everything else: a device whose copies of a
# layer's activations take less time than its computation.
COSTS = {"mm": "60us", "bmm": "40us", "*": "100GB/s"}
LINK = "20GB/s"


@dataclasses.dataclass(frozen=True)
class Setting:
    sizes: tiny.Sizes
    batch: int
    memory: int
    """Bytes of the device."""
    window: int
    """Device bytes that may be on their way to the host, and as many on their way back."""


FULL = Setting(tiny.Sizes(), batch=4, memory=32_000_000, window=6 << 20)
SMALL = Setting(tiny.Sizes(layers=4, sequence=64), batch=2, memory=7_700_000, window=1 << 20)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What training in one way came to; bytes and virtual seconds of the last step."""

    peak: int
    step_s: float
    bytes_out: int
    bytes_in: int
    stalls: int
    stall_s: float
    races: int
    state: list[torch.Tensor]
    """Parameters and their gradients, on the CPU."""


def job(setting: Setting) -> dict[str, Any]:
    """The job of examples/torch/tiny.yaml, for the setting's sizes."""
    sizes = setting.sizes
    return {
        "model": {
            "layers": sizes.layers, "hidden": sizes.hidden, "heads": sizes.heads,
            "kv_heads": sizes.kv_heads, "ffn": sizes.ffn, "vocab": sizes.vocab,
        },
        "cluster": {
            "device": {
                "peak": {"bf16": "1 TFLOPS"}, "memory": f"{setting.memory} B",
                "memory_bandwidth": "100 GB/s", "host_link": "20 GB/s", "host_memory": "8 GB",
            },
            "devices": 1,
            "per_node": 1,
            "levels": [{"name": "host", "size": 1, "bandwidth": "20 GB/s", "latency": "1 us"}],
        },
        "training": {
            "sequence": sizes.sequence, "global_batch": setting.batch,
            "precision": {"compute": "bf16", "weights": "bf16", "gradients": "bf16",
                          "master": "none", "optimizer": "bf16"},
            "optimizer": "sgd", "attention": "unfused", "loss": "unfused", "framework": "torch",
        },
        "search": {"tp": 1, "pp": 1, "zero": 0, "micro_batch": setting.batch,
                   "recompute": ["off", "full"], "margin": "512KiB"},
    }


# Ways to fit. Each changes a model in place.

def by_swap(model: tiny.CausalLM, setting: Setting) -> None:
    layers = model.model.layers
    for index, layer in enumerate(layers):
        layers[index] = rt.swap_wrapper(layer)


def by_checkpoint(model: tiny.CausalLM, setting: Setting) -> None:
    layers = model.model.layers
    for index, layer in enumerate(layers):
        layers[index] = rt.checkpoint_wrapper(layer)


def by_both(model: tiny.CausalLM, setting: Setting) -> None:
    layers = model.model.layers
    for index, layer in enumerate(layers):
        layers[index] = rt.checkpoint_wrapper(layer, swap_inputs=True)


def by_plan(model: tiny.CausalLM, setting: Setting) -> rt.Applied:
    with tempfile.TemporaryDirectory() as folder:
        (path,) = restow.export(job(setting), to="restow", out=folder)
        return rt.apply(model, path)


def plainly(model: tiny.CausalLM, setting: Setting) -> None:
    pass


def train(
    setting: Setting, change: Callable[[tiny.CausalLM, Setting], Any], memory: int
) -> Outcome:
    """Raises torch.OutOfMemoryError where the model does not fit into `memory` bytes."""
    emu.reset()
    emu.configure(capacity=memory, h2d=LINK, d2h=LINK, op_cost=COSTS)
    rt.configure(window=setting.window, min_bytes=0)
    model = tiny.tiny(setting.sizes).to("emu")
    change(model, setting)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    words, targets = (t.to("emu") for t in tiny.batch(setting.batch, setting.sizes))
    for _ in range(STEPS):
        torch.accelerator.synchronize()
        rt.reset_stats()
        emu.restart_clock()
        emu.reset_peak_memory()
        optimizer.zero_grad()
        model(words, targets).backward()
        optimizer.step()
        torch.accelerator.synchronize()
    stats = rt.stats()
    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters if p.grad is not None]
    return Outcome(
        peak=emu.max_memory_allocated(),
        step_s=emu.now(),
        bytes_out=stats.bytes_out,
        bytes_in=stats.bytes_in,
        stalls=stats.stalls,
        stall_s=stats.stall_s,
        races=len(emu.races()),
        state=[t.detach().cpu() for t in (*parameters, *gradients)],
    )


def predicted(setting: Setting) -> dict[str, int]:
    """Peaks by the planner. It does not price swap yet: what is swapped is taken off its figures.

    A swapped layer's bytes leave the device, but the last layer's stay, and a window is on its way.
    """
    off = restow.price(job(setting), recompute="off").candidate
    full = restow.price(job(setting), recompute="full").candidate
    layers = setting.sizes.layers
    layer = off.memory["activations"] // layers
    # A layer's input in bf16.
    entry = 2 * setting.batch * setting.sizes.sequence * setting.sizes.hidden
    return {
        "plain": off.peak_bytes,
        "swap": off.peak_bytes - (layers - 1) * layer + min(setting.window, layer),
        "checkpoint": full.peak_bytes,
        "both": full.peak_bytes - (layers - 1) * entry + min(setting.window, entry),
        "plan": full.peak_bytes,
    }


WAYS: dict[str, Callable[[tiny.CausalLM, Setting], Any]] = {
    "swap": by_swap,
    "checkpoint": by_checkpoint,
    "both": by_both,
    "plan": by_plan,
}
HEADINGS = ("", "peak MiB", "predicted", "off %", "step ms", "out MiB", "in MiB", "stalls",
            "stalled ms", "gradients", "races")


def cells(name: str, outcome: Outcome, peak: int, reference: Outcome) -> tuple[str, ...]:
    same = all(torch.equal(a, b) for a, b in zip(reference.state, outcome.state, strict=True))
    return (
        name,
        f"{outcome.peak / MIB:.2f}",
        f"{peak / MIB:.2f}",
        f"{100 * (peak - outcome.peak) / outcome.peak:+.1f}",
        f"{outcome.step_s * 1e3:.3f}",
        f"{outcome.bytes_out / MIB:.2f}",
        f"{outcome.bytes_in / MIB:.2f}",
        str(outcome.stalls),
        f"{outcome.stall_s * 1e3:.3f}",
        "equal" if same else "DIFFER",
        str(outcome.races),
    )


def table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    return "\n".join(
        row[0].ljust(widths[0])
        + "".join("  " + text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )


def fails_plainly(setting: Setting) -> bool:
    try:
        train(setting, plainly, setting.memory)
    except torch.OutOfMemoryError as error:
        print(f"as it is, it fails: {str(error).splitlines()[0]}")
        return True
    print("as it is, it fits: there is nothing to show")
    return False


def applied_report(setting: Setting) -> str:
    """One step under the plan: bytes of each module, predicted and measured."""
    emu.reset()
    model = tiny.tiny(setting.sizes).to("emu")
    applied = by_plan(model, setting)
    words, targets = (t.to("emu") for t in tiny.batch(setting.batch, setting.sizes))
    model(words, targets).backward()
    report = str(applied.report())
    applied.undo()
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a smaller model, for tests")
    setting = SMALL if parser.parse_args().small else FULL
    torch.set_num_threads(1)
    memory = setting.memory / MIB
    print(f"a transformer of {setting.sizes.layers} layers on a device of {memory:.1f} MiB")
    failed = fails_plainly(setting)
    reference = train(setting, plainly, 1 << 32)
    expected = predicted(setting)
    rows = [HEADINGS, cells("plain*", reference, expected["plain"], reference)]
    for name, change in WAYS.items():
        rows.append(cells(name, train(setting, change, setting.memory), expected[name], reference))
    print(table(rows))
    print("* on a device without that limit: what the others' gradients are compared with")
    print("\nthe plan that restow made, in bytes:")
    print(applied_report(setting))
    good = failed and all(row[-2:] == ("equal", "0") for row in rows[1:])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
