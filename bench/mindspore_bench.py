#!/usr/bin/env python3
"""Peak memory and step time of a six-block MindSpore model on CPU: a table of bars, and JSON.

  mindspore_bench.py [FILE] [--small] [--runs N]

Each variant runs in a process of its own, N times in turn (5, or RESTOW_BENCH_RUNS); medians count:
`plain` MindSpore; `naive` hooks, which write each tensor of 1 MiB and more to a file and read it back;
`restow`; and `floor`, the same script with one block, to which five blocks' weights and gradients
are added. The disk's rates are fio's, in the same run. RESTOW_BENCH_DIR is the folder for files,
no tmpfs; build/bench without it. Exit 1 when a bar is missed or a measurement fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import Any

from engine_bench import Bar, table

ROOT = pathlib.Path(__file__).resolve().parents[1]
MIB = 1 << 20
STEPS = 3
VARIANTS = ("floor", "plain", "naive", "restow")


@dataclass(frozen=True)
class Sizes:
    """Of the model and its input; tensors below `least` bytes stay where they are."""

    blocks: int = 6
    width: int = 1024
    inner: int = 4096
    rows: int = 8192
    least: int = MIB
    fio_bytes: int = 512 * MIB


SMALL = Sizes(width=32, inner=128, rows=128, least=4096, fio_bytes=8 * MIB)


def say(text: str) -> None:
    print(f"mindspore bench: {text}", file=sys.stderr, flush=True)


def make_blocks(count: int, sizes: Sizes) -> list[Any]:
    from mindspore import nn

    class Block(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Dense(sizes.width, sizes.inner)
            self.act = nn.GELU()
            self.down = nn.Dense(sizes.inner, sizes.width)

        def construct(self, x: Any) -> Any:
            return x + self.down(self.act(self.up(x)))

    return [Block() for _ in range(count)]


def with_naive_hooks(forward: Any, folder: str, least: int) -> Any:
    """`forward` under hooks that write each tensor to a file of its own, and wait."""
    import mindspore as ms
    import numpy as np

    def pack(tensor: Any) -> Any:
        if tensor.nbytes < least or tensor.param_info is not None:
            return tensor
        handle, path = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            tensor.asnumpy().tofile(file)
        return path, tensor.shape

    def unpack(saved: Any) -> Any:
        if not isinstance(saved, tuple):
            return saved
        array = np.fromfile(saved[0], np.float32).reshape(saved[1])
        os.unlink(saved[0])
        return ms.Tensor.from_numpy(array)

    def hooked(x: Any) -> Any:
        with ms.saved_tensors_hooks(pack, unpack):
            return forward(x)

    return hooked


def run_variant(name: str, folder: str, sizes: Sizes) -> dict[str, Any]:
    """Times the variant in this process, and hashes the last step's loss and gradients."""
    import mindspore as ms
    import numpy as np

    ms.set_seed(1)
    blocks = make_blocks(1 if name == "floor" else sizes.blocks, sizes)
    if name == "restow":
        import restow.mindspore as rm

        rm.configure(file_dir=folder, min_bytes=sizes.least)
        blocks = [rm.swap_wrapper(block) for block in blocks]
    weights = [p for block in blocks for p in block.trainable_params()]

    def forward(x: Any) -> Any:
        for block in blocks:
            x = block(x)
        return (x * x).mean()

    if name == "naive":
        forward = with_naive_hooks(forward, folder, sizes.least)
    step = ms.value_and_grad(forward, None, weights)
    drawn = np.random.RandomState(0).standard_normal((sizes.rows, sizes.width))
    x = ms.Tensor(drawn.astype(np.float32))
    del drawn
    times = []
    digest = hashlib.sha256()
    for index in range(STEPS):
        begin = time.perf_counter()
        loss, grads = step(x)
        loss.asnumpy()
        for grad in grads:
            grad.asnumpy()
        times.append(time.perf_counter() - begin)
        if index == STEPS - 1:
            for value in (loss, *grads):
                digest.update(value.asnumpy().tobytes())
        del loss, grads
    result = {
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "step_s": min(times[1:]),
        "first_step_s": times[0],
        "weight_bytes": sum(p.nbytes for p in weights),
        "digest": digest.hexdigest(),
    }
    if name == "restow":
        stats = rm.stats()
        result |= {
            "bytes_out": stats.file_bytes,
            "bytes_in": stats.bytes_in,
            "stalls": stats.stalls,
            "stall_s": stats.stall_s,
        }
    return result


def fio(folder: str, way: str, size: int) -> float:
    """Bytes per second of `way`, past the page cache, over a file that exists."""
    words = [
        "fio", "--name=rate", f"--filename={folder}/fio.bin", f"--rw={way}", f"--size={size}",
        "--bs=4m", "--iodepth=8", "--ioengine=libaio", "--direct=1", "--overwrite=1",
        "--end_fsync=1", "--output-format=json",
    ]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"mindspore bench: fio failed: {run.stderr[-2000:]}")
    return float(json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0][way]["bw_bytes"])


def measured(name: str, folder: str, small: bool) -> dict[str, Any]:
    words = [sys.executable, "-B", __file__, "--variant", name, *(["--small"] if small else [])]
    environment = {**os.environ, "RESTOW_BENCH_DIR": folder}
    run = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    if run.returncode != 0 or not lines:
        sys.exit(f"mindspore bench: {name}: exit {run.returncode}\n{run.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return result


def measure(count: int, small: bool) -> tuple[dict[str, list[Any]], list[dict[str, float]]]:
    """Results by variant, and the disk's rates, of `count` rounds."""
    sizes = SMALL if small else Sizes()
    base = os.environ.get("RESTOW_BENCH_DIR") or str(ROOT / "build" / "bench")
    os.makedirs(base, exist_ok=True)
    runs: dict[str, list[Any]] = {name: [] for name in VARIANTS}
    rates = []
    with tempfile.TemporaryDirectory(dir=base) as folder:
        fio(folder, "write", sizes.fio_bytes)  # the file's space is taken before anything is timed
        for number in range(count):
            # A shared disk is faster in one minute than in the next.
            rates.append({way: fio(folder, way, sizes.fio_bytes) for way in ("write", "read")})
            for name in VARIANTS:
                run = measured(name, folder, small)
                runs[name].append(run)
                peak = run["peak_bytes"] / MIB
                say(f"{number + 1}/{count} {name}: {peak:.0f} MiB, {run['step_s']:.2f} s a step")
    return runs, rates


def summary(
    runs: dict[str, list[Any]], rates: list[dict[str, float]], sizes: Sizes
) -> tuple[list[Bar], dict[str, Any]]:
    """The bars, and the medians they come from."""

    def middle(name: str, key: str) -> float:
        return statistics.median(run[key] for run in runs[name])

    peak = {name: middle(name, "peak_bytes") for name in VARIANTS}
    step = {name: middle(name, "step_s") for name in VARIANTS}
    # Weights and gradients of the blocks that the floor's script does not have.
    floor = peak["floor"] + 2 * runs["floor"][0]["weight_bytes"] * (sizes.blocks - 1)
    moved = {way: middle("restow", f"bytes_{way}") / STEPS for way in ("out", "in")}
    rate = {way: statistics.median(one[way] for one in rates) for way in ("write", "read")}
    transfers_s = moved["out"] / rate["write"] + moved["in"] / rate["read"]
    bound_s = max(step["plain"], transfers_s)
    digests = {run["digest"] for name in ("plain", "naive", "restow") for run in runs[name]}
    note = f"{moved['out'] / MIB:.0f} MiB out and {moved['in'] / MIB:.0f} in a step"
    bars = [
        Bar("peak resident over floor, MiB", (peak["restow"] - floor) / MIB, 256, note),
        Bar("gradients that differ", len(digests) - 1, 0),
        Bar("step time / naive pair's", step["restow"] / step["naive"], 1,
            f"{step['restow']:.2f} s / {step['naive']:.2f} s"),
        Bar("step time / bound", step["restow"] / bound_s, 1.15,
            f"compute {step['plain']:.2f} s, transfers {transfers_s:.2f} s"),
    ]
    figures = {"peak_bytes": peak, "step_s": step, "floor_bytes": floor, "moved_bytes": moved,
               "bytes_per_s": rate, "bound_s": bound_s}
    return bars, figures


def variants_table(figures: dict[str, Any]) -> str:
    peak, step, floor = figures["peak_bytes"], figures["step_s"], figures["floor_bytes"]
    lines = [f"{'':8} {'peak MiB':>9} {'over floor':>11} {'step s':>8} {'of plain':>9}"]
    for name in VARIANTS[1:]:
        over, ratio = (peak[name] - floor) / MIB, step[name] / step["plain"]
        lines.append(f"{name:8} {peak[name] / MIB:9.0f} {over:11.0f} {step[name]:8.2f} {ratio:9.2f}")
    rate = {way: value / MIB for way, value in figures["bytes_per_s"].items()}
    lines.append(f"floor {floor / MIB:.0f} MiB; fio: {rate['write']:.0f} MiB/s written, "
                 f"{rate['read']:.0f} read")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The engine's bars under MindSpore on CPU.")
    parser.add_argument("file", nargs="?", help="the figures as JSON")
    parser.add_argument("--small", action="store_true", help="sizes for a test, not for figures")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("RESTOW_BENCH_RUNS", "5")))
    parser.add_argument("--variant", choices=VARIANTS, help="one variant, in this process")
    options = parser.parse_args()
    sizes = SMALL if options.small else Sizes()
    if options.variant:
        result = run_variant(options.variant, os.environ["RESTOW_BENCH_DIR"], sizes)
        print("RESULT " + json.dumps(result))
        return 0
    runs, rates = measure(options.runs, options.small)
    bars, figures = summary(runs, rates, sizes)
    print(f"{sizes.blocks} blocks {sizes.width}-{sizes.inner}-{sizes.width}, "
          f"input {sizes.rows}x{sizes.width}, {STEPS} steps, median of {options.runs}")
    print(variants_table(figures))
    print(table(bars))
    if options.file:
        path = pathlib.Path(options.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [{**asdict(bar), "met": bar.met} for bar in bars]
        report = {"bars": lines, "figures": figures, "runs": runs, "fio": rates}
        path.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if options.small or all(bar.met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
