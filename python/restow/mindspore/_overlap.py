"""Who is wrapped, and which wraps would put one region into another.

Nothing is written onto users' objects: what is wrapped is kept in a table by identity. An entry
lives as long as its wrapper, which keeps what it wraps alive, so that no identity in the table is
ever that of another object.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from mindspore import nn

from restow.errors import Overlap
from restow.mindspore._names import INNER, Transparent

__all__ = ["FuncCell", "check", "enter", "entries", "leave"]

# Shared by reference wherever they are used, and without a state that a region would hold.
_SHARED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    type,
)

_REMEDY = (
    "one region would lie inside the other; wrap one of them only, unwrap the other first "
    "(restow.mindspore.unwrap), or call swap() or checkpoint() inside it, which nest"
)


class FuncCell(nn.Cell):
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


class _Entry(weakref.ref[Transparent]):
    """One wrapper, known until it dies, and the identities of what it wraps."""

    __slots__ = ("keys",)

    keys: tuple[int, ...]


_table: dict[int, _Entry] = {}


def entries() -> int:
    """How many objects are known to be wrapped."""
    return len(_table)


def enter(wrapper: Transparent) -> None:
    """Notes what `wrapper` wraps, until it dies or leaves."""
    entry = _Entry(wrapper, _forget)
    entry.keys = tuple(id(part) for part in _parts(wrapper.__dict__[INNER]))
    for key in entry.keys:
        _table.setdefault(key, entry)


def leave(wrapper: Transparent) -> None:
    """Forgets what `wrapper` wraps."""
    for part in _parts(wrapper.__dict__[INNER]):
        entry = _table.get(id(part))
        if entry is not None and entry() is wrapper:
            del _table[id(part)]


def _forget(entry: weakref.ref[Transparent]) -> None:
    # Called wherever the wrapper dies, also by the garbage collector: no lock, no Python callback.
    assert isinstance(entry, _Entry)
    for key in entry.keys:
        if _table.get(key) is entry:
            del _table[key]


def _parts(inner: nn.Cell) -> list[Any]:
    """What is wrapped: the cell and, where it stands for a callable with a state, that one."""
    if isinstance(inner, FuncCell) and not isinstance(inner._fn, _SHARED):
        return [inner, inner._fn]
    return [inner]


def check(target: Any, nests: bool) -> None:
    """Raises `Overlap` when wrapping `target` would put one region into another.

    ``nests``: the wrapper to be is one that may lie inside a region (`Transparent._nests`).
    """
    if not isinstance(target, nn.Cell):
        if not isinstance(target, _SHARED):
            _check_itself(target)
            _check_holders(target, nests)
        return
    if isinstance(target, Transparent) and not target._released:
        _refuse_twice(target.__dict__[INNER], target)
    _check_itself(target)
    if isinstance(target, FuncCell):
        check(target._fn, nests)
    else:
        _check_contents(target, nests)
    _check_holders(target, nests)


def _check_itself(target: Any) -> None:
    wrapper = _wrapper_of(target)
    if wrapper is not None:
        _refuse_twice(target, wrapper)


def _check_contents(target: nn.Cell, nests: bool) -> None:
    for path, cell in _walk(target):
        if path and (wrapper := _wrapper_of(cell)) and not _tolerated(wrapper, nests, inner=True):
            _refuse(f"its {path!r} ({_class(cell)}) is", target)
        for name, value in _callables(cell):
            if (wrapper := _wrapper_of(value)) and not _tolerated(wrapper, nests, inner=True):
                _refuse(f"its {_join(path, name)!r} ({_class(value)}) is", target)


def _check_holders(target: Any, nests: bool) -> None:
    for wrapper in {entry() for entry in list(_table.values())}:
        if wrapper is None or _tolerated(wrapper, nests, inner=False):
            continue
        outer = wrapper.__dict__[INNER]
        if isinstance(target, nn.Cell) and not _reaches(outer, target):
            continue
        if (path := _path(outer, target)) is not None:
            _refuse(f"it is {path!r} of a {_class(outer)} that is", target)


def _wrapper_of(part: Any) -> Transparent | None:
    entry = _table.get(id(part))
    return entry() if entry is not None else None


def _tolerated(wrapper: Transparent, nests: bool, inner: bool) -> bool:
    """Whether `wrapper` may lie inside (`inner`) or around the wrapper to be."""
    held = wrapper.__dict__[INNER]
    if isinstance(held, FuncCell) and isinstance(held._fn, _SHARED):
        return True
    within, around = (wrapper._nests, nests) if inner else (nests, wrapper._nests)
    return within and not around


def _reaches(outer: nn.Cell, target: nn.Cell) -> bool:
    """Whether `target` lies in `outer`: asked for every wrapper there is, so without paths."""
    seen: set[nn.Cell | None] = {None}
    left: list[nn.Cell | None] = [outer]
    while left:
        cell = left.pop()
        if cell is target:
            return True
        if cell is None or cell in seen:
            continue
        seen.add(cell)
        if isinstance(cell, Transparent):
            left.append(cell.__dict__[INNER])
        else:
            left.extend(cell._cells.values())
    return False


def _path(outer: nn.Cell, target: Any) -> str | None:
    """Where `target` lies in `outer`; None where it does not."""
    for path, cell in _walk(outer):
        if cell is target:
            return path
        if isinstance(target, nn.Cell):
            continue
        for name, value in _callables(cell):
            if value is target:
                return _join(path, name)
    return None


def _walk(root: nn.Cell) -> Iterator[tuple[str, nn.Cell]]:
    """Every cell at or below `root` once, wrappers looked through, with its path."""
    seen: set[nn.Cell] = set()
    left = [("", root)]
    while left:
        path, cell = left.pop()
        while isinstance(cell, Transparent):
            cell = cell.__dict__[INNER]
        if cell in seen:
            continue
        seen.add(cell)
        yield path, cell
        prefix = path + "." if path else ""
        for name, child in cell._cells.items():
            if child is not None:
                left.append((prefix + name, child))


def _callables(cell: nn.Cell) -> Iterator[tuple[str, Any]]:
    """The public attributes of this very cell that are callables with a state of their own."""
    for name, value in vars(cell).items():
        if not name.startswith("_") and callable(value) and not isinstance(value, _SHARED):
            yield name, value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _class(part: Any) -> str:
    if isinstance(part, FuncCell):
        part = part._fn
    return type(part).__name__


def _refuse(why: str, target: Any) -> NoReturn:
    raise Overlap(f"cannot wrap this {_class(target)}: {why} wrapped already, and {_REMEDY}")


def _refuse_twice(target: Any, wrapper: Transparent) -> NoReturn:
    raise Overlap(
        f"cannot wrap this {_class(target)}: it is wrapped already, by a {type(wrapper).__name__}; "
        "to swap and recompute one cell use checkpoint_wrapper(cell, swap_inputs=True)"
    )
