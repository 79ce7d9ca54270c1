"""Arguments and results of any structure: what is of a kind in them, taken out and put back."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from mindspore import Parameter, Tensor

__all__ = ["map_leaves", "map_tensors"]


def map_leaves(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """The same structure with `change(leaf)` for every leaf of `kind`.

    Dicts, lists, tuples, named tuples and dataclasses are walked and keep their types; anything
    else is passed as it is.
    """
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        changed = copy.copy(value)
        for key, item in value.items():
            changed[key] = map_leaves(item, kind, change)
        return changed
    if isinstance(value, tuple):
        items = [map_leaves(item, kind, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return type(value)(map_leaves(item, kind, change) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        twin = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                item = map_leaves(getattr(value, field.name), kind, change)
                object.__setattr__(twin, field.name, item)
        return twin
    return value


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with `change(tensor)` for every tensor that is no parameter."""
    return map_leaves(value, Tensor, lambda t: t if isinstance(t, Parameter) else change(t))
