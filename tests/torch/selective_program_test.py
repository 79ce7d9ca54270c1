"""Selective recompute from C++: selective_program.cc checks itself."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_cpp_program_selects_operators_by_name_by_set_and_by_policy(tmp_path):
    program = ROOT / "build" / "python" / "torch-tests" / "restow_torch_selective"
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libtorch_cpu" in linked and "libpython" not in linked
    done = subprocess.run([program, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": good") == 9 and "WRONG" not in done.stdout
