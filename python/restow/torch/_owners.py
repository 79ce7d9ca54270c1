"""Whose parameters are known before a region opens, and on which devices it works."""

import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from restow.errors import Unsupported
from restow.torch._load import native

_REMEDY = (
    "name a folder for files with restow.torch.configure(file_dir=...) or RESTOW_FILE_DIR, or "
    "switch the region off with restow.disabled()"
)


def remember(owner: Any) -> None:
    """Storages of the parameters and buffers that `owner` reaches are never moved."""
    if isinstance(owner, torch.nn.Module):
        native.remember_module(owner)
    elif isinstance(owner, types.FunctionType):
        for cell in owner.__closure__ or ():
            _remember_value(cell)
    elif isinstance(owner, types.MethodType):
        _remember_object(owner.__self__)
        remember(owner.__func__)
    elif isinstance(owner, functools.partial):
        remember(owner.func)
        for value in (*owner.args, *owner.keywords.values()):
            _remember_object(value)


def _remember_value(cell: types.CellType) -> None:
    try:
        value = cell.cell_contents
    except ValueError:  # not assigned yet
        return
    _remember_object(value)


def _remember_object(value: Any) -> None:
    if isinstance(value, torch.nn.Module):
        native.remember_module(value)
    elif isinstance(value, torch.nn.Parameter):
        native.remember(value)
    elif isinstance(value, (types.MethodType, functools.partial)):
        remember(value)


def remember_arguments(args: Iterable[Any], kwargs: dict[str, Any]) -> None:
    for value in args:
        if not isinstance(value, torch.Tensor):
            _remember_object(value)
    for value in kwargs.values():
        if not isinstance(value, torch.Tensor):
            _remember_object(value)


def _devices(owner: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> Iterator[torch.device]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value.device
        elif isinstance(value, (list, tuple)):
            yield from (one.device for one in value if isinstance(one, torch.Tensor))
    while owner is not None and not isinstance(owner, torch.nn.Module):
        owner = getattr(owner, "__self__", None)
    if owner is not None:
        first = next(owner.parameters(), None)
        if first is not None:
            yield first.device


_obstacles: dict[torch.device, str] = {}


def forget_devices() -> None:
    """After a change of settings."""
    _obstacles.clear()


def _obstacle(device: torch.device) -> str:
    found = _obstacles.get(device)
    if found is None:
        found = _obstacles[device] = native.obstacle(str(device))
    return found


def check_can_move(owner: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> None:
    """Errors: Unsupported with the remedy, where nothing that the region saves could be moved."""
    obstacle = ""
    for device in _devices(owner, args, kwargs):
        if device.type == "meta":
            return
        found = _obstacle(device)
        if not found:
            return
        obstacle = obstacle or found
    if not obstacle and not torch.accelerator.is_available():
        obstacle = _obstacle(torch.device("cpu"))
    if obstacle:
        raise Unsupported(f"swap can have no effect here: {obstacle}. To go on, {_REMEDY}")
