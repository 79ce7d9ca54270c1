"""Random programs once more, with MindSpore's operators launched ahead as a user's are."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_programs_hold_when_operators_are_launched_ahead(tmp_path):
    run = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml",
         "--rootdir", ROOT, ROOT / "tests" / "mindspore" / "random_programs_test.py"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "RESTOW_MINDSPORE_ASYNC": "1", "RESTOW_MINDSPORE_PROGRAMS": "8"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
