"""Whose parameters are known before a region opens, and on which devices it works."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterable
from typing import Any

from mindspore import Parameter, Tensor, nn

from restow.errors import Unsupported
from restow.mindspore import _settings, _targets

__all__ = ["addresses", "check_can_move", "known"]

# Parameters that any region has met, for tensors that are looked at outside of one.
_met: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def addresses(
    owner: Any, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None
) -> set[int]:
    """Addresses of the storages of the parameters and buffers that these reach."""
    found: set[int] = set()
    _collect(owner, found)
    for value in (*args, *(kwargs or {}).values()):
        if not isinstance(value, Tensor) or isinstance(value, Parameter):
            _collect(value, found)
    return found


def _collect(owner: Any, found: set[int]) -> None:
    if isinstance(owner, nn.Cell):
        for _, cell in owner.cells_and_names():
            for tensor in (*cell._params.values(), *cell._buffers.values()):
                _add(tensor, found)
    elif isinstance(owner, Parameter):
        _add(owner, found)
    elif isinstance(owner, types.FunctionType):
        for cell in owner.__closure__ or ():
            try:
                _collect_held(cell.cell_contents, found)
            except ValueError:  # not assigned yet
                continue
    elif isinstance(owner, types.MethodType):
        _collect_held(owner.__self__, found)
        _collect(owner.__func__, found)
    elif isinstance(owner, functools.partial):
        _collect(owner.func, found)
        for value in (*owner.args, *owner.keywords.values()):
            _collect_held(value, found)
    else:
        function = getattr(owner, "_fn", None)
        if function is not None:
            _collect(function, found)


def _collect_held(value: Any, found: set[int]) -> None:
    if isinstance(value, (nn.Cell, Parameter, types.MethodType, functools.partial)):
        _collect(value, found)


def _add(tensor: Any, found: set[int]) -> None:
    # A parameter that is not initialised has no memory yet.
    if tensor is None or getattr(tensor, "has_init", False):
        return
    try:
        found.add(tensor.untyped_storage().data_ptr())
    except RuntimeError:  # it has no storage
        return
    _met[id(tensor)] = tensor


def known() -> set[int]:
    """Where the storages of all parameters lie now that any region has met."""
    found: set[int] = set()
    for tensor in list(_met.values()):
        _add(tensor, found)
    return found


def check_can_move() -> None:
    """Errors: Unsupported with the remedy, where nothing that a region saves could be moved."""
    _targets.check_tried()
    if _targets.on_host() and not _settings.current().file_dir:
        raise Unsupported(
            "swap can have no effect here: CPU tensors can only move to files. To go on, name a "
            "folder for files with restow.mindspore.configure(file_dir=...) or RESTOW_FILE_DIR, or "
            "switch the region off with restow.disabled()"
        )
