"""Finds the compiled half of this package and loads it beside the torch it was built for."""

import importlib.util
import os
import pathlib
import sys
import types
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from restow.torch import _native as native

__all__ = ["native"]

_BUILT_FOR = "2.13"


def _candidates() -> list[pathlib.Path]:
    """Folders that may hold the extension: installed, named by the user, or built in a checkout."""
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("RESTOW_TORCH_DIR")
    folders = [pathlib.Path(named)] if named else [here]
    if not named:
        folders += sorted(here.parents[2].glob("build/*/restow-ext/torch"))
    return folders


def _find() -> pathlib.Path:
    folders = _candidates()
    for folder in folders:
        for file in sorted(folder.glob("_native*.so")):
            return file
    looked = ", ".join(str(folder) for folder in folders)
    raise ImportError(
        f"the compiled part of restow.torch is not in {looked}; build it with ./run python, or "
        "name its folder in RESTOW_TORCH_DIR"
    )


def _load() -> types.ModuleType:
    if torch.__version__.split("+")[0].rsplit(".", 1)[0] != _BUILT_FOR:
        raise ImportError(
            f"restow.torch is built for torch {_BUILT_FOR}, and this is torch "
            f"{torch.__version__}; install torch=={_BUILT_FOR}.*, or build restow beside yours"
        )
    name = "restow.torch._native"
    spec = importlib.util.spec_from_file_location(name, _find())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


if not TYPE_CHECKING:
    native = _load()
