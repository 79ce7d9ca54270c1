"""Exceptions of every part of Restow.

Each is a :class:`Error` and, where Python has a class of its own for the kind of fault, that too.
"""

from __future__ import annotations

from typing import Any


class Error(RuntimeError):
    """Something went wrong in Restow; the base of all its exceptions."""


class InputError(Error, ValueError):
    """A file or a value is wrong.

    ``file`` is the path as it was given, ``"<dict>"`` for a dict, ``"argument tp=8"`` for a keyword
    argument, or None; ``line`` and ``column`` count from 1 and are None where the fault has no
    place. ``message`` is the sentence without the place, which ``str()`` puts in front.
    """

    def __init__(
        self,
        message: str,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.file, self.line, self.column)


class NothingFits(Error):
    """What was to be acted on does not fit its devices.

    Planning and pricing do not raise it: that nothing fits is their answer (``report.ranked`` is
    empty and ``report.nearest_misses`` is not). ``restow.export`` does.
    """


class ModifiedInPlace(Error):
    """A saved tensor was modified in place before its backward."""


class Overlap(Error, ValueError):
    """Two requests claim the same tensor or module."""


class Unsupported(Error, NotImplementedError):
    """Named by the interfaces, but not available in this version."""


class OutOfMemory(Error, MemoryError):
    """No memory is left in a pool or on a device."""


class NotDeterministic(Error):
    """A recomputed forward did not repeat the first one."""


class UnknownFieldWarning(UserWarning):
    """A field of a job or a model that no reader knows; ``strict=True`` refuses it instead."""
