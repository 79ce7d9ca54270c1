"""Tensors that a rerun gets in: what a frame keeps of arguments, and of results not made again."""

from __future__ import annotations

from typing import Any

from mindspore.common._grad_function import _Function

from restow.mindspore._providers import Provider, looking
from restow.mindspore._saver import save_through
from restow.mindspore._tensors import alias
from restow.mindspore._trees import map_leaves, map_tensors

__all__ = ["Input", "fill", "take"]


class _Pass(_Function):  # type: ignore[misc]
    """The identity with a history: what it gives may be changed in place like any result."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        return alias(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


class Input:
    """One tensor, saved by whoever surrounds the frame, and how it took part in gradients."""

    __slots__ = ("_leaf", "_needs", "_saved")

    def __init__(self, tensor: Any, outer: Provider | None, label: str, bare: bool) -> None:
        self._needs = not bare and bool(tensor._requires_grad)
        self._leaf = bool(tensor._is_leaf)
        self._saved = save_through(outer, tensor, label)

    def again(self) -> Any:
        """The same bytes without the history. Errors: those of its provider."""
        with looking():
            tensor = alias(self._saved.unpack())
            if not self._needs:
                return tensor
            tensor.requires_grad_()
            return tensor if self._leaf else _Pass.apply(tensor)


def take(value: Any, outer: Provider | None, label: str, *, bare: bool = False) -> Any:
    """The structure with an `Input` for each tensor. ``bare``: none comes with gradients."""
    return map_tensors(value, lambda tensor: Input(tensor, outer, label, bare))


def fill(value: Any) -> Any:
    """The structure with each `Input`'s tensor."""
    return map_leaves(value, Input, lambda one: one.again())
