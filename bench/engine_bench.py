#!/usr/bin/env python3
"""The engine's bars under PyTorch, as a table, and as JSON in the file that is named.

  engine_bench.py [FILE] [--only overlap|nothing|host_cost|file_tier|selective] [--small]

Each measurement runs in a process of its own (bench/engine/), which checks its answers before it
times anything. RESTOW_BENCH_DIR is the file tier's directory; build/bench without it, no tmpfs.
Exit 1 when a bar is missed or a measurement fails.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ROOT / "bench" / "engine"
PEERS = ROOT / "build" / "venv-peers" / "bin" / "python"
FIO_BYTES = 1 << 30


@dataclass(frozen=True)
class Bar:
    """One line of the table."""

    name: str
    value: float
    bar: float
    note: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.bar if self.at_least else self.value <= self.bar


@dataclass(frozen=True)
class Measurement:
    bars: list[Bar]
    figures: Any


def say(text: str) -> None:
    print(f"engine bench: {text}", file=sys.stderr, flush=True)


def run_part(
    name: str,
    *words: str,
    python: str = sys.executable,
    prefix: tuple[str, ...] = (),
    settings: Mapping[str, str] | None = None,
) -> Any:
    """A measurement's answer: the last line of what it prints."""
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "build" / "python" / "ext")])
    done = subprocess.run(
        [*prefix, python, "-B", str(PARTS / f"{name}.py"), *words],
        env={
            **os.environ,
            **(settings or {}),
            "PYTHONPATH": path + os.pathsep + os.environ.get("PYTHONPATH", ""),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"engine bench: {name} {' '.join(words)} failed")
    return json.loads(done.stdout.splitlines()[-1])


def small_words(small: bool) -> list[str]:
    return ["--small"] if small else []


def overlap(small: bool) -> Measurement:
    rows = run_part("overlap", *small_words(small))
    bars = []
    for row in rows:
        at = f"compute {row['compute_per_copy']:g}x copies"
        bars.append(Bar(f"step time / bound, {at}", row["ratio"], row["bar"]))
        freed = Bar(f"freed / moved, {at}", row["freed_share"], row["freed_bar"], at_least=True)
        bars.append(freed)
    return Measurement(bars, rows)


def step_words(count: int, steps: int, wrapped: bool) -> list[str]:
    return ["--rows", str(count), "--steps", str(steps), *(["--wrapped"] if wrapped else [])]


def by_callgrind(count: int, steps: int, wrapped: bool) -> int:
    """User-space instructions of the steps."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "callgrind.out"
        tool = ("valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no",
                f"--callgrind-out-file={log}")
        run_part("nothing", *step_words(count, steps, wrapped), "--callgrind", prefix=tool)
        totals = re.findall(r"^(?:summary|totals): (\d+)", log.read_text(), re.MULTILINE)
        if not totals:
            sys.exit("engine bench: callgrind's output is not understood")
        return int(totals[-1])


def counters_work() -> bool:
    if shutil.which("perf") is None:
        return False
    words = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stderr.split(",")[0].isdigit()


def by_counters(count: int, steps: int, wrapped: bool) -> int:
    """The same by the processor's own counters: the difference of two lengths."""
    ends = []
    for length in (1, 1 + steps):
        with tempfile.NamedTemporaryFile("r") as log:
            tool = ("perf", "stat", "-x,", "-o", log.name, "-e", "instructions:u")
            run_part("nothing", *step_words(count, length, wrapped), prefix=tool)
            lines = [line for line in log.read().splitlines() if "instructions" in line]
        ends.append(int(lines[0].split(",")[0]))
    return ends[1] - ends[0]


def by_cpu_time(count: int, small: bool) -> tuple[float, str]:
    """CPU time in place of instructions: much noisier, and marked so."""
    rounds, steps = (1, 2) if small else (15, 4)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for wrapped in (False, True):
            answer = run_part("nothing", *step_words(count, steps, wrapped))
            times[wrapped].append(answer["cpu_s"])
    return min(times[True]) / min(times[False]) - 1, "CPU TIME: no counter and no valgrind here"


def share_of_instructions(count: int, small: bool) -> tuple[float, str]:
    """What wrappers add to the steps, as a share of the plain steps."""
    if counters_work():
        count_of, how = by_counters, "perf stat"
    elif shutil.which("valgrind") is not None:
        count_of, how = by_callgrind, "callgrind"
    else:
        return by_cpu_time(count, small)
    steps = 1 if small else 2
    plain, wrapped = (count_of(count, steps, wrapped) for wrapped in (False, True))
    return wrapped / plain - 1, how


def nothing(small: bool) -> Measurement:
    count = run_part("nothing", "--calibrate", *small_words(small))["rows"]
    answers = [
        run_part("nothing", "--rows", str(count), *words) for words in ([], ["--wrapped"])
    ]
    if answers[0]["digest"] != answers[1]["digest"]:
        sys.exit("engine bench: nothing to do, and yet the gradients differ")
    share, how = share_of_instructions(count, small)
    bars = [
        Bar("nothing to do: instructions more, %", 100 * share, 0.5, how),
        Bar("nothing to do: bytes copied", answers[1]["bytes_out"], 0),
    ]
    return Measurement(bars, {"rows": count, "share": share, "how": how})


def make_peers() -> None:
    """build/venv-peers: the peers' packages beside build/venv's torch, which stays as it is."""
    if PEERS.exists() and (PEERS.parents[1] / ".made").exists():
        return
    lines = (ROOT / "deps" / "python.txt").read_text().splitlines()
    groups = [line.split("#")[0].split() for line in lines]
    wanted = [g[1] for g in groups if len(g) > 1 and g[0] in ("peers", "torch")]
    base, folder = ROOT / "build" / "venv", PEERS.parents[1]
    say(f"making {folder.name}: {' '.join(wanted)}")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    commands = [
        [str(base / "bin" / "python"), "-m", "venv", str(folder)],
        [str(PEERS), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted],
    ]
    for number, command in enumerate(commands):
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
            say("they could not be installed; what is missing is not measured")
            return
        if number == 0:
            site = folder / "lib" / version / "site-packages" / "project.pth"
            site.write_text(f"{base / 'lib' / version / 'site-packages'}\n")
    (folder / ".made").touch()


def host_cost(small: bool) -> Measurement:
    if not small:
        make_peers()
    python = str(PEERS) if PEERS.exists() and not small else sys.executable
    figures = run_part("host_cost", *small_words(small), python=python)
    cost = figures["us_per_tensor"]
    bars = []
    for ours in ("restow proxy fused", "restow python fused", "restow proxy", "restow python"):
        for name, theirs in cost.items():
            if not name.startswith("restow"):
                note = f"{cost[ours]:.2f} us / {theirs:.2f} us"
                bars.append(Bar(f"host cost, {ours} / {name}", cost[ours] / theirs, 1 / 3, note))
    for name in figures["missing"]:
        say(f"{name} is not installed and not measured")
    return Measurement(bars, figures)


def fio_rate(folder: str, way: str, size: int) -> float:
    """Bytes per second of sequential direct transfers of 1 MiB, eight in flight."""
    words = [
        "fio", "--name=engine", f"--filename={folder}/fio.bin", f"--size={size}", "--bs=1M",
        "--iodepth=8", "--ioengine=io_uring", "--direct=1", f"--rw={way}", "--overwrite=1",
        "--output-format=json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"engine bench: fio failed: {done.stderr}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    return float(job[way]["bw_bytes"])


def file_tier_under(
    settings: dict[str, str], small: bool, label: str, rates: dict[str, float], folder: str
) -> Measurement:
    """One plain and one swapped run, each in a process with these environment variables."""
    words = ["--dir", folder, *small_words(small)]
    plain, swap = (
        run_part("file_tier", "--way", way, *words, settings=settings) for way in ("plain", "swap")
    )
    if plain["digest"] != swap["digest"]:
        sys.exit("engine bench: gradients under the file tier differ")
    transfers_s = (
        swap["bytes_out_per_step"] / rates["write"] + swap["bytes_in_per_step"] / rates["read"]
    )
    bound_s = max(plain["step_s"], transfers_s)
    share = swap["peak_rss_bytes"] / plain["peak_rss_bytes"]
    note = f"compute {plain['step_s']:.2f} s, transfers {transfers_s:.2f} s"
    bars = [
        Bar(f"file tier, {label}: peak resident / plain", share, 0.45,
            f"{plain['saved_bytes'] / 2**30:.2f} GiB saved"),
        Bar(f"file tier, {label}: step time / bound", swap["step_s"] / bound_s, 1.15, note),
    ]
    return Measurement(bars, {"plain": plain, "swap": swap, "fio": rates, "bound_s": bound_s})


def file_tier(small: bool) -> Measurement:
    """With torch's default allocator on CPU, and with its other one (docs/torch.md)."""
    base = os.environ.get("RESTOW_BENCH_DIR") or str(ROOT / "build" / "bench")
    os.makedirs(base, exist_ok=True)
    allocators: dict[str, dict[str, str]] = {
        "default allocator": {},
        "THP allocator": {"THP_MEM_ALLOC_ENABLE": "1"},
    }
    done = {}
    with tempfile.TemporaryDirectory(dir=base) as folder:
        size = (64 << 20) if small else FIO_BYTES
        fio_rate(folder, "write", size)  # the file's space is taken before anything is timed
        for label, settings in allocators.items():
            rates = {way: fio_rate(folder, way, size) for way in ("write", "read")}
            done[label] = file_tier_under(settings, small, label, rates, folder)
    bars = [bar for measurement in done.values() for bar in measurement.bars]
    return Measurement(bars, {label: measurement.figures for label, measurement in done.items()})


def selective(small: bool) -> Measurement:
    figures = run_part("selective", *small_words(small))
    virtual = figures["virtual"]
    rerun = f"rerun {1e3 * virtual['rerun_s']:.2f} ms, step {1e3 * virtual['step_s']:.1f} ms"
    bars = [
        Bar("selective: (step - plain) / operators rerun", virtual["ratio"], 1.02, rerun),
        Bar("selective: runs of kept operators more", virtual["kept_runs_more"], 0,
            f"of {virtual['kept_runs']}"),
    ]
    for device, figures_of in figures["host"].items():
        cost = figures_of["us_per_operator"]
        for kind, bar in (("list", 1 / 3), ("policy", 1.0)):
            ours, theirs = cost[f"restow {kind}"], cost[f"torch {kind}"]
            name = f"selective: host cost, {kind} / torch's, {device}"
            bars.append(Bar(name, ours / theirs, bar, f"{ours:.2f} us / {theirs:.2f} us"))
    return Measurement(bars, figures)


MEASUREMENTS: dict[str, Callable[[bool], Measurement]] = {
    "overlap": overlap,
    "nothing": nothing,
    "host_cost": host_cost,
    "file_tier": file_tier,
    "selective": selective,
}


def table(bars: list[Bar]) -> str:
    rows = [("", "figure", "bar", "", "")]
    for bar in bars:
        sign = ">=" if bar.at_least else "<="
        rows.append(
            (bar.name, f"{bar.value:.4g}", f"{sign} {bar.bar:.4g}", "met" if bar.met else "MISSED",
             bar.note)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(
        f"{n.ljust(widths[0])}  {v.rjust(widths[1])}  {b.rjust(widths[2])}  {m.ljust(widths[3])}  "
        f"{note}".rstrip()
        for n, v, b, m, note in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="The engine's bars under PyTorch.")
    parser.add_argument("file", nargs="?", help="the figures as JSON")
    parser.add_argument("--only", choices=sorted(MEASUREMENTS), action="append")
    parser.add_argument("--small", action="store_true", help="sizes for a test, not for figures")
    options = parser.parse_args()
    chosen = {n: m for n, m in MEASUREMENTS.items() if not options.only or n in options.only}
    done = {}
    for name, measure in chosen.items():
        say(f"{name} ...")
        done[name] = measure(options.small)
    bars = [bar for measurement in done.values() for bar in measurement.bars]
    print(table(bars))
    if options.file:
        path = pathlib.Path(options.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        figures = {name: measurement.figures for name, measurement in done.items()}
        lines = [{**asdict(bar), "met": bar.met} for bar in bars]
        path.write_text(json.dumps({"bars": lines, "figures": figures}, indent=2) + "\n")
    return 0 if options.small or all(bar.met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
