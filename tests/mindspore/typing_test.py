"""restow.mindspore holds under mypy --strict beside its framework."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def mypy(cache, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml",
         "--cache-dir", cache, *arguments],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )


def test_the_package_is_strict():
    run = mypy(ROOT / "build" / "mindspore" / "mypy", "python/restow/mindspore")
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_mistake_is_found(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text("import restow.mindspore as rm\n\nrm.stats().bytes_oot\n")
    run = mypy(ROOT / "build" / "mindspore" / "mypy", path)
    assert ":3: error" in run.stdout and "[attr-defined]" in run.stdout, run.stdout + run.stderr
