"""The names that MindSpore's parameters carry themselves, as cells are attached and moved."""

from __future__ import annotations

import weakref
from typing import Any

from restow.errors import InputError

__all__ = ["Attachment", "check_unique"]


class Attachment:
    """What a wrapper knows of where it is attached."""

    def __init__(self) -> None:
        self.attached = False
        self.checked = False
        # The outermost cell that listed the wrapper among its own.
        self._root: weakref.ref[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"attached": self.attached, "checked": False, "_root": None}

    def rename(self, inner: Any, prefix: str | None, recurse: bool) -> None:
        """What `Cell.update_parameters_name` does, for a wrapped cell.

        The first attachment keeps a name that ends in what it would become, so that a wrapper which
        replaces an attached cell does not lose the path above it.
        """
        before = prefix or ""
        first = not self.attached and before != ""
        if before:
            self.attached = True
        for local, parameter in inner.parameters_and_names(expand=recurse):
            name = before + local
            if first and _ends_in(parameter.name, name):
                continue
            if parameter.name != name:
                parameter.name = name
                parameter.is_init = False

    def note(self, wrapper: Any, visited: Any) -> None:
        """`visited`: the cells that a walk has met on its way to the wrapper."""
        if self.checked:
            return
        top = wrapper
        while (above := _holder(top, visited)) is not None:
            visited = visited - {above}
            top = above
        if top is not wrapper:
            self._root = weakref.ref(top)

    def check(self, inner: Any) -> None:
        """Once. Errors: InputError when two parameters of the root that was seen share a name."""
        if self.checked:
            return
        root = self._root() if self._root is not None else None
        check_unique(inner if root is None else root)
        self.checked = True
        self._root = None


def _holder(cell: Any, among: Any) -> Any:
    return next((one for one in among if any(c is cell for c in one._cells.values())), None)


def _ends_in(full: str, part: str) -> bool:
    """At a segment boundary."""
    return full == part or full.endswith("." + part)


def check_unique(root: Any) -> None:
    """Errors: InputError when two parameters of `root` have one name."""
    paths: dict[str, str] = {}
    for path, parameter in root.parameters_and_names():
        other = paths.setdefault(parameter.name, path)
        if other != path:
            raise InputError(
                f"two parameters of this {type(root).__name__} are called {parameter.name!r}: "
                f"{other!r} and {path!r}. MindSpore tells parameters apart by their names: "
                "optimizers fail, and checkpoints miss one of them without a word. Call "
                "root.update_parameters_name() on the whole model"
            )
