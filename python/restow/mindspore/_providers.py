"""Who saves tensors for backward: a stack of providers, the innermost of which MindSpore calls.

MindSpore calls the innermost pair of hooks only; what has to reach an outer one is handed on here.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

import mindspore as ms

from restow.errors import ModifiedInPlace
from restow.mindspore import _settings, _targets
from restow.mindspore._tensors import alias, checksum, is_parameter, memory_of

__all__ = ["Kept", "Provider", "Saved", "busy", "enclosing", "keep", "looking", "stack", "unlooking"]


class Saved(Protocol):
    """What a pack hook returns."""

    def unpack(self) -> Any: ...


class Kept:
    """A tensor that stays where it is, guarded against changes in place."""

    __slots__ = ("_label", "_sum", "_tensor", "_version")

    def __init__(self, tensor: Any, label: str, guarded: bool) -> None:
        # Without the history: the graph would hold itself.
        self._tensor = alias(tensor)
        self._label = label
        self._version = self._sum = None
        if guarded:
            memory = memory_of(tensor)
            self._version = memory.version
            if _settings.current().check_changes and _targets.on_host():
                self._sum = checksum(memory.address, memory.nbytes)

    def unpack(self) -> Any:
        if self._version is not None:
            memory = memory_of(self._tensor)
            changed = memory.version != self._version
            if self._sum is not None:
                changed = changed or self._sum != checksum(memory.address, memory.nbytes)
            if changed:
                raise ModifiedInPlace(
                    f"{self._label}: a saved tensor was changed in place before its backward; make "
                    "the change out of place, or on a copy"
                )
        return self._tensor


def keep(tensor: Any, label: str) -> Saved:
    """Keeps a tensor; parameters, which optimizers change in place, are not guarded."""
    guarded = not is_parameter(tensor) and tensor.untyped_storage().nbytes() > 0
    return Kept(tensor, label, guarded)


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Provider] = []
        self.looking = 0


_state = _State()


def stack() -> list[Provider]:
    """The providers of this thread, outermost first."""
    return _state.stack


class looking:
    """Operators inside are Restow's own or a policy's: nobody is told of them."""

    __slots__ = ()

    def __enter__(self) -> None:
        _state.looking += 1

    def __exit__(self, *_: Any) -> None:
        _state.looking -= 1


class unlooking:
    """Operators inside are the user's again."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _state.looking
        _state.looking = 0

    def __exit__(self, *_: Any) -> None:
        _state.looking = self._before


def busy() -> bool:
    """Is Restow itself, or a policy, at work?"""
    return _state.looking > 0


def _unpack(saved: Any) -> Any:
    with looking():
        return saved.unpack()


class Provider:
    """Takes what is saved between `enter` and `leave`; either may be called by an exception."""

    def __init__(self) -> None:
        self._hooks: Any = None

    def save(self, tensor: Any, by_operator: bool = False) -> Saved:
        """``by_operator``: an operator's gradient needs it; else a region within keeps it."""
        raise NotImplementedError

    def _pack(self, tensor: Any) -> Any:
        if busy():
            return Kept(tensor, "", False)
        with looking():
            return self.save(tensor, by_operator=True)

    def enter(self) -> None:
        hooks = ms.saved_tensors_hooks(self._pack, _unpack)
        hooks.__enter__()
        self._hooks = hooks
        _state.stack.append(self)

    def leave(self) -> None:
        hooks, self._hooks = self._hooks, None
        if hooks is None:
            return
        _state.stack.remove(self)
        # It holds bound methods of this provider, which holds it no longer.
        hooks.__exit__(None, None, None)
        hooks.pack_hook = hooks.unpack_hook = None


def enclosing() -> Provider | None:
    """The innermost provider of this thread."""
    return _state.stack[-1] if _state.stack else None
