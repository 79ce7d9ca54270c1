"""`./run demo` and the engine's benchmark, in a small setting: what they claim they show."""

import json
import os
import subprocess
import sys

from helpers import ROOT


def run(*words, timeout=600):
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-B", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_the_demo_fails_plainly_and_then_fits_in_every_way():
    done = run(ROOT / "tools" / "demo.py", "--small")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("as it is, it fails: ") for line in lines), done.stdout
    cells = {line.split()[0]: line.split() for line in lines if line.endswith(" 0")}
    assert {"plain*", "swap", "checkpoint", "both", "plan"} <= set(cells), done.stdout
    peak = {name: float(row[1]) for name, row in cells.items()}
    for name in ("swap", "checkpoint", "both", "plan"):
        assert cells[name][-2:] == ["equal", "0"]
        assert peak[name] < peak["plain*"]
    out = {name: float(row[5]) for name, row in cells.items()}
    assert out["swap"] > 0
    assert out["both"] > 0
    assert out["checkpoint"] == out["plan"] == 0
    assert "model.layers.3" in done.stdout
    assert "4 of 4 modules" in done.stdout


def test_the_demo_ends_with_1_where_it_has_nothing_to_show():
    script = (
        "import sys, dataclasses; sys.path.insert(0, 'tools'); sys.argv = ['demo.py', '--small']\n"
        "import demo\n"
        "demo.SMALL = dataclasses.replace(demo.SMALL, memory=1 << 30)\n"
        "sys.exit(demo.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", script],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "there is nothing to show" in done.stdout


def test_the_benchmark_measures_every_bar_and_writes_them_down(tmp_path):
    file = tmp_path / "engine.json"
    done = run(
        ROOT / "bench" / "engine_bench.py", file, "--small",
        "--only", "overlap", "--only", "host_cost", "--only", "file_tier",
        "--only", "selective",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads(file.read_text())
    names = [bar["name"] for bar in written["bars"]]
    assert [name for name in names if name.startswith("step time / bound")] != []
    assert set(written["figures"]) == {"overlap", "host_cost", "file_tier", "selective"}
    for bar in written["bars"]:
        exact = ("step time / bound", "freed / moved", "selective: (step", "selective: runs")
        if bar["name"].startswith(exact):
            # The virtual clock is exact: these hold at any size.
            assert bar["met"], bar
