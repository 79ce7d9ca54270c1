"""`pip install .` into a fresh environment gives the package and the command.

The build backend is taken from the project's environment and what is compiled stays in build/wheel,
so that the test needs no network and a second run compiles only what has changed. Compiler and flags
are those of the preset `python`: where there is a compiler cache, the first run compiles nothing.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LLAMA = ROOT / "examples" / "llama3-70b-64xh100.yaml"


def run(*arguments, cwd, env=None):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, cwd=cwd,
                          env={**clean, **(env or {})}, check=False)
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def compiler():
    """The compiler of the preset `python`, if that has been built."""
    cache = ROOT / "build" / "python" / "CMakeCache.txt"
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache.read_text() if cache.exists() else "",
                      re.M)
    return {"CXX": found.group(1)} if found else {}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The programs of an environment that `pip install .` has just filled."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    programs = folder / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", ROOT, "--no-build-isolation", "--no-deps",
        "--no-index", "--disable-pip-version-check",
        "--config-settings", f"build-dir={ROOT / 'build' / 'wheel'}",
        "--config-settings", "cmake.define.RESTOW_WERROR=ON",
        cwd=folder, env={"PYTHONPATH": sysconfig.get_path("purelib"), **compiler()})
    return programs


def test_the_package_plans(fresh, tmp_path):
    text = run(fresh / "python", "-c",
               "import restow, sys; report = restow.plan(sys.argv[1]); print(restow.__file__);"
               "print(report.ranked[0].to_json())", LLAMA, cwd=tmp_path)
    place, document = text.split("\n", 1)
    assert pathlib.Path(place).is_relative_to(fresh.parent)
    own = json.loads(run(fresh / "restow", "plan", LLAMA, "--json", cwd=tmp_path))
    assert json.loads(document) == own["ranked"][0]


def test_the_version_is_one(fresh, tmp_path):
    text = run(fresh / "python", "-c", "import importlib.metadata, restow;"
               "print(restow.__version__, importlib.metadata.version('restow'))", cwd=tmp_path)
    version = run(fresh / "restow", "--version", cwd=tmp_path).removeprefix("restow ").strip()
    assert text.split() == [version, version]


def test_what_is_installed_is_consistent(fresh, tmp_path):
    assert "No broken requirements" in run(fresh / "python", "-m", "pip", "check", cwd=tmp_path)


def test_only_the_package_and_the_command_are_installed(fresh, tmp_path):
    text = run(fresh / "python", "-c", "import importlib.metadata;"
               "print(*importlib.metadata.files('restow'), sep='\\n')", cwd=tmp_path)
    for name in text.split():
        assert name.startswith(("restow/", "restow-", "../../../bin/restow")), name
    assert "restow/py.typed" in text and "restow/_restow.pyi" in text


@pytest.mark.parametrize("option", ["CMAKE_DISABLE_FIND_PACKAGE_fmt=ON", "RESTOW_CLI11="])
def test_headers_that_are_missing_are_named_with_the_remedy(option, tmp_path):
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", f"-D{option}"],
                          capture_output=True, text=True, check=False)
    message = " ".join(done.stderr.split())
    assert done.returncode != 0 and "is missing" in message
    assert "apt-get install g++ libfmt-dev" in message


def test_it_is_uninstalled_without_a_rest(fresh, tmp_path):
    run(fresh / "python", "-m", "pip", "uninstall", "-y", "restow", cwd=tmp_path)
    assert not (fresh / "restow").exists()
    done = subprocess.run([fresh / "python", "-c", "import restow"], capture_output=True, text=True,
                          cwd=tmp_path, check=False)
    assert "No module named 'restow'" in done.stderr
