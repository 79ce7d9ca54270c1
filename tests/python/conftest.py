"""What the tests of the Python face share."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("RESTOW_ROOT", pathlib.Path(__file__).parents[2]))
BINARY = os.environ.get("RESTOW_BINARY", str(ROOT / "build" / "python" / "restow"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
LLAMA = ROOT / "examples" / "llama3-70b-64xh100.yaml"
# A setting of that job that fits and one that does not.
FITTING = {"tp": 8, "pp": 4, "vpp": 1, "recompute": "full"}
TOO_LARGE = {"tp": 8, "pp": 1, "vpp": 1, "recompute": "off"}


@pytest.fixture
def llama():
    return LLAMA


@pytest.fixture
def llama_dict():
    """What the file holds."""
    return {
        "name": "llama3-70b-64xh100",
        "model": {"preset": "llama3-70b"},
        "cluster": {"device": "h100-sxm", "devices": 64, "per_node": 8},
        "training": {
            "sequence": 8192,
            "global_batch": 512,
            "precision": "bf16",
            "optimizer": "adamw",
            "attention": "flash",
            "loss": "fused",
            "framework": "megatron",
        },
        "current": {"tp": 8, "pp": 4, "micro_batch": 1, "recompute": "full"},
        "search": {"tp": "auto", "pp": [1, 2, 4, 8], "recompute": "auto", "margin": "2GiB"},
    }


def command(*arguments):
    """Standard output of the command, which must not have failed."""
    run = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                         check=False)
    assert run.returncode in (0, 4), run.stderr
    return run.stdout


def command_json(*arguments):
    return json.loads(command(*arguments, "--json"))


def dimension_words(dimensions):
    return [f"{name}={value}" for name, value in dimensions.items()]


def python(code, **options):
    """Runs a program in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False, timeout=120, cwd=ROOT, **options)
