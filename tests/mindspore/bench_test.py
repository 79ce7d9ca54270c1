"""The benchmark runs to its end at small sizes, and writes down what it prints."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import mindspore_bench  # noqa: E402

MIB = 1 << 20


def test_every_bar_is_measured_and_written_down(tmp_path):
    file = tmp_path / "mindspore.json"
    done = subprocess.run(
        [sys.executable, "-B", mindspore_bench.__file__, file, "--small", "--runs", "1"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "RESTOW_BENCH_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads(file.read_text())
    bars = {bar["name"]: bar for bar in written["bars"]}
    assert list(bars) == [
        "peak resident over floor, MiB",
        "gradients that differ",
        "step time / naive pair's",
        "step time / bound",
    ]
    for name, bar in bars.items():
        [line] = [line for line in done.stdout.splitlines() if line.startswith(name)]
        assert ("met" if bar["met"] else "MISSED") in line
    assert bars["gradients that differ"]["met"]
    assert written["figures"]["moved_bytes"]["out"] > 0
    for variant in mindspore_bench.VARIANTS:
        assert f"1/1 {variant}: " in done.stderr
    # The naive pair's files, fio's and the engine's are gone.
    assert os.listdir(tmp_path) == [file.name]


def a_run(peak, step, digest="same"):
    return {"peak_bytes": peak * MIB, "step_s": step, "weight_bytes": 10 * MIB, "digest": digest,
            "bytes_out": 600 * MIB, "bytes_in": 300 * MIB}


@pytest.fixture
def runs():
    return {
        "floor": [a_run(400, 1)],
        "plain": [a_run(1900, 10)],
        "naive": [a_run(900, 16)],
        "restow": [a_run(700, 12), a_run(760, 15), a_run(740, 13)],
    }


def test_bars_are_medians_against_the_floor_and_the_slower_of_compute_and_transfers(runs):
    # Floor 400 + 2 * 10 * 5 = 500 MiB. A step moves 200 MiB out and 100 in: 200/20 + 100/50 = 12 s.
    rates = [{"write": 20 * MIB, "read": 50 * MIB}]
    bars, _ = mindspore_bench.summary(runs, rates, mindspore_bench.Sizes())
    assert [bar.value for bar in bars] == [240, 0, 13 / 16, 13 / 12]
    assert [bar.met for bar in bars] == [True] * 4
    # Ten times the disk: the compute of 10 s is the bound.
    rates = [{"write": 200 * MIB, "read": 500 * MIB}]
    bars, _ = mindspore_bench.summary(runs, rates, mindspore_bench.Sizes())
    assert bars[3].value == 13 / 10
    assert not bars[3].met


def test_one_run_with_other_gradients_misses_its_bar(runs):
    runs["restow"].append(a_run(740, 13, "other"))
    rates = [{"write": 20 * MIB, "read": 50 * MIB}]
    bars, _ = mindspore_bench.summary(runs, rates, mindspore_bench.Sizes())
    assert bars[1].value == 1
    assert not bars[1].met
