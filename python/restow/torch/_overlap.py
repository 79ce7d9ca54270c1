"""Callables in the shape of modules, and the table of what is wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from restow._overlap import Family, Overlaps
from restow.torch._names import Transparent

__all__ = ["FuncModule", "check", "enter", "entries", "family", "leave"]


class FuncModule(nn.Module):
    """A plain callable in the shape of a module, without parameters.

    Positional and keyword arguments and the result pass through unchanged.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise TypeError(f"FuncModule takes a callable, not {type(fn).__name__}")
        super().__init__()
        self._fn = fn

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    def extra_repr(self) -> str:
        return getattr(self._fn, "__qualname__", type(self._fn).__name__)


family = Family(
    package="restow.torch",
    noun="module",
    module=nn.Module,
    wrapper=Transparent,
    function=FuncModule,
    children=lambda module: module._modules,
)
_overlaps = Overlaps(family)
check, enter, entries, leave = (
    _overlaps.check,
    _overlaps.enter,
    _overlaps.entries,
    _overlaps.leave,
)
