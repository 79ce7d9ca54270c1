"""Callables in the shape of cells, and the table of what is wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import nn

from restow._overlap import Family, Overlaps
from restow.mindspore._names import Transparent

__all__ = ["FuncCell", "check", "enter", "entries", "family", "leave"]


class FuncCell(nn.Cell):  # type: ignore[misc]
    """A plain callable in the shape of a cell, without parameters.

    Positional and keyword arguments and the result pass through unchanged.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise TypeError(f"FuncCell takes a callable, not {type(fn).__name__}")
        super().__init__(auto_prefix=False)
        # A primitive assigned the usual way would be renamed.
        self.__dict__["_fn"] = fn

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    def extend_repr(self) -> str:
        return getattr(self._fn, "__qualname__", type(self._fn).__name__)


family = Family(
    package="restow.mindspore",
    noun="cell",
    module=nn.Cell,
    wrapper=Transparent,
    function=FuncCell,
    children=lambda cell: cell._cells,
)
_overlaps = Overlaps(family)
check, enter, entries, leave = (
    _overlaps.check,
    _overlaps.enter,
    _overlaps.entries,
    _overlaps.leave,
)
