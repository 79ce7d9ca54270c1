"""Who is wrapped, and which wraps would put one region into another: for any framework.

Nothing is written onto users' objects: what is wrapped is kept in a table by identity. An entry
lives as long as its wrapper, which keeps what it wraps alive, so that no identity in the table is
ever that of another object.
"""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from restow.errors import Overlap

__all__ = ["INNER", "Family", "Overlaps"]

# The entry of a wrapper's __dict__ that holds what it wraps. It is kept out of the framework's own
# lists of children, so that no walk over a model ever sees its name.
INNER = "_ckpt_wrapped_module"

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


@dataclasses.dataclass(frozen=True)
class Family:
    """What a framework calls its parts."""

    package: str  # "restow.torch"
    noun: str  # "module"
    module: type  # the framework's modules
    wrapper: type  # ours, with `_nests` and `_released`
    function: type  # a callable in the shape of a module, in `_fn`
    children: Callable[[Any], Mapping[str, Any]]


class _Entry(weakref.ref[Any]):
    """One wrapper, known until it dies, and the identities of what it wraps."""

    __slots__ = ("keys",)

    keys: tuple[int, ...]


class Overlaps:
    """The wrappers of one framework."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._table: dict[int, _Entry] = {}

    def entries(self) -> int:
        """How many objects are known to be wrapped."""
        return len(self._table)

    def enter(self, wrapper: Any) -> None:
        """Notes what `wrapper` wraps, until it dies or leaves."""
        entry = _Entry(wrapper, self._forget)
        entry.keys = tuple(id(part) for part in self._parts(wrapper.__dict__[INNER]))
        for key in entry.keys:
            self._table.setdefault(key, entry)

    def leave(self, wrapper: Any) -> None:
        """Forgets what `wrapper` wraps."""
        for part in self._parts(wrapper.__dict__[INNER]):
            entry = self._table.get(id(part))
            if entry is not None and entry() is wrapper:
                del self._table[id(part)]

    def check(self, target: Any, nests: bool) -> None:
        """Raises `Overlap` when wrapping `target` would put one region into another.

        ``nests``: the wrapper to be is one that may lie inside a region (its `_nests`).
        """
        family = self._family
        if not isinstance(target, family.module):
            if not isinstance(target, _SHARED):
                self._check_itself(target)
                self._check_holders(target, nests)
            return
        if isinstance(target, family.wrapper) and not _released(target):
            self._refuse_twice(target.__dict__[INNER], target)
        self._check_itself(target)
        if isinstance(target, family.function):
            self.check(_fn_of(target), nests)
        else:
            self._check_contents(target, nests)
        self._check_holders(target, nests)

    def _forget(self, entry: weakref.ref[Any]) -> None:
        # Called wherever the wrapper dies, also by the garbage collector: no lock, no other call.
        assert isinstance(entry, _Entry)
        for key in entry.keys:
            if self._table.get(key) is entry:
                del self._table[key]

    def _parts(self, inner: Any) -> list[Any]:
        """What is wrapped, and the callable with a state that it stands for, if it does."""
        if isinstance(inner, self._family.function) and not isinstance(_fn_of(inner), _SHARED):
            return [inner, _fn_of(inner)]
        return [inner]

    def _check_itself(self, target: Any) -> None:
        wrapper = self._wrapper_of(target)
        if wrapper is not None:
            self._refuse_twice(target, wrapper)

    def _check_contents(self, target: Any, nests: bool) -> None:
        for path, module in self._walk(target):
            if path and self._forbidden_in(module, nests):
                self._refuse(f"its {path!r} ({self._class(module)}) is", target)
            for name, value in _callables(module):
                if self._forbidden_in(value, nests):
                    self._refuse(f"its {_join(path, name)!r} ({self._class(value)}) is", target)

    def _forbidden_in(self, part: Any, nests: bool) -> bool:
        wrapper = self._wrapper_of(part)
        return wrapper is not None and not self._tolerated(wrapper, nests, inner=True)

    def _check_holders(self, target: Any, nests: bool) -> None:
        for wrapper in {entry() for entry in list(self._table.values())}:
            if wrapper is None or self._tolerated(wrapper, nests, inner=False):
                continue
            outer = wrapper.__dict__[INNER]
            if isinstance(target, self._family.module) and not self._reaches(outer, target):
                continue
            if (path := self._path(outer, target)) is not None:
                self._refuse(f"it is {path!r} of a {self._class(outer)} that is", target)

    def _wrapper_of(self, part: Any) -> Any:
        entry = self._table.get(id(part))
        return entry() if entry is not None else None

    def _tolerated(self, wrapper: Any, nests: bool, inner: bool) -> bool:
        """Whether `wrapper` may lie inside (`inner`) or around the wrapper to be."""
        held = wrapper.__dict__[INNER]
        if isinstance(held, self._family.function) and isinstance(_fn_of(held), _SHARED):
            return True
        within, around = (wrapper._nests, nests) if inner else (nests, wrapper._nests)
        return bool(within and not around)

    def _reaches(self, outer: Any, target: Any) -> bool:
        """Whether `target` lies in `outer`: asked for every wrapper there is, so without paths."""
        seen: set[Any] = {None}
        left: list[Any] = [outer]
        while left:
            module = left.pop()
            if module is target:
                return True
            if module is None or module in seen:
                continue
            seen.add(module)
            if isinstance(module, self._family.wrapper):
                left.append(module.__dict__[INNER])
            else:
                left.extend(self._family.children(module).values())
        return False

    def _path(self, outer: Any, target: Any) -> str | None:
        """Where `target` lies in `outer`; None where it does not."""
        for path, module in self._walk(outer):
            if module is target:
                return path
            if isinstance(target, self._family.module):
                continue
            for name, value in _callables(module):
                if value is target:
                    return _join(path, name)
        return None

    def _walk(self, root: Any) -> Iterator[tuple[str, Any]]:
        """Everything at or below `root` once, wrappers looked through, with its path."""
        seen: set[Any] = set()
        left = [("", root)]
        while left:
            path, module = left.pop()
            while isinstance(module, self._family.wrapper):
                module = module.__dict__[INNER]
            if module in seen:
                continue
            seen.add(module)
            yield path, module
            for name, child in self._family.children(module).items():
                if child is not None:
                    left.append((_join(path, name), child))

    def _class(self, part: Any) -> str:
        return type(_fn_of(part) if isinstance(part, self._family.function) else part).__name__

    def _refuse(self, why: str, target: Any) -> NoReturn:
        raise Overlap(
            f"cannot wrap this {self._class(target)}: {why} wrapped already, and one region would "
            "lie inside the other; wrap one of them only, unwrap the other first "
            f"({self._family.package}.unwrap), or call swap() or checkpoint() inside it, which nest"
        )

    def _refuse_twice(self, target: Any, wrapper: Any) -> NoReturn:
        noun = self._family.noun
        raise Overlap(
            f"cannot wrap this {self._class(target)}: it is wrapped already, by a "
            f"{type(wrapper).__name__}; to swap and recompute one {noun} use "
            f"checkpoint_wrapper({noun}, swap_inputs=True)"
        )


def _fn_of(function: Any) -> Any:
    return function._fn


def _released(wrapper: Any) -> bool:
    return bool(wrapper._released)


def _callables(module: Any) -> Iterator[tuple[str, Any]]:
    """The public attributes of this very module that are callables with a state of their own."""
    for name, value in vars(module).items():
        if not name.startswith("_") and callable(value) and not isinstance(value, _SHARED):
            yield name, value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
