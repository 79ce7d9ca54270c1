"""Finds and loads the compiled half of a package beside the framework it was built for."""

import importlib.util
import os
import pathlib
import sys
import types

__all__ = ["load"]


def _folders(part: str, variable: str) -> list[pathlib.Path]:
    """Where it may be: named by the user, or installed, or built in a checkout."""
    named = os.environ.get(variable)
    if named:
        return [pathlib.Path(named)]
    here = pathlib.Path(__file__).resolve().parent
    return [here / part, *sorted(here.parents[1].glob(f"build/*/restow-ext/{part}"))]


def load(part: str, torch_version: str, built_for: str) -> types.ModuleType:
    """The module ``restow.PART._native``, of the folder in RESTOW_PART_DIR where that is set.

    ``torch_version`` is the running torch's, ``built_for`` the minor version that the extension
    knows. Errors: ImportError saying what is missing, or which torch to install.
    """
    package, variable = f"restow.{part}", f"RESTOW_{part.upper()}_DIR"
    if torch_version.split("+")[0].rsplit(".", 1)[0] != built_for:
        raise ImportError(
            f"{package} is built for torch {built_for}, and this is torch {torch_version}; install "
            f"torch=={built_for}.*, or build restow beside yours"
        )
    folders = _folders(part, variable)
    files = [file for folder in folders for file in sorted(folder.glob("_native*.so"))]
    if not files:
        looked = ", ".join(str(folder) for folder in folders)
        raise ImportError(
            f"the compiled part of {package} is not in {looked}; build it with ./run python, or "
            f"name its folder in {variable}"
        )
    name = f"{package}._native"
    spec = importlib.util.spec_from_file_location(name, files[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module
