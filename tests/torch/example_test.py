"""The C++ program of examples/torch: it trains without Python, bit-equal."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]


def test_the_cpp_example_trains_bit_equal_without_python(tmp_path: pathlib.Path) -> None:
    program = ROOT / "build/python/restow-ext/torch/restow_torch_example"
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libtorch_cpu" in linked and "libpython" not in linked
    done = subprocess.run(
        [program, tmp_path], capture_output=True, text=True, timeout=120, env={**os.environ}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "parameters equal bit for bit" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_readme_shows_lines_of_the_cpp_example() -> None:
    (block,) = re.findall(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    program = {line.strip() for line in (ROOT / "examples/torch/train.cc").read_text().splitlines()}
    assert all(line.strip() in program for line in block.splitlines())


def test_the_readme_trains_with_swap_and_recompute_in_these_words() -> None:
    text = (ROOT / "README.md").read_text()
    (snippet,) = re.findall(r'python -c "\n(import restow\.emulator, restow\.torch.*?)"\n', text, re.S)
    python = ROOT / "build/venv/bin/python"
    done = subprocess.run(
        [python, "-c", snippet], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "recomputed_regions=9" in done.stdout and "moved" in done.stdout
