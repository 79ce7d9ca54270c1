"""swap_tensor_wrapper: chosen tensors move, wherever in the region autograd saves them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from mindspore import Tensor

from restow import _enabled
from restow.mindspore._tensors import alias, records

if TYPE_CHECKING:
    from restow.mindspore._explain import Rows

__all__ = ["Marks", "swap_tensor_wrapper"]

_Target = TypeVar("_Target")


class Marks:
    """The storages that were marked in one region, by address."""

    def __init__(self) -> None:
        # The tensor is held, so that no other storage comes to lie there meanwhile.
        self._marked: dict[int, tuple[str, Any]] = {}
        self._used: set[int] = set()

    def add(self, tensor: Any, tag: str) -> None:
        self._marked[tensor.untyped_storage().data_ptr()] = (tag, alias(tensor))

    def use(self, address: int) -> str | None:
        """The tag of the storage there, which is being saved."""
        found = self._marked.get(address)
        if found is None:
            return None
        self._used.add(address)
        return found[0]

    def close(self, rows: Rows) -> None:
        """Tells of what was marked and never saved, and lets go of all."""
        for address, (tag, tensor) in self._marked.items():
            if address not in self._used:
                rows.add(
                    f"{tag}::{tuple(tensor.shape)}",
                    tensor.nbytes,
                    "keep",
                    "marked, but never saved for backward",
                )
        self._marked.clear()


def _leaves(target: Any, seen: set[int]) -> Iterator[Any]:
    if isinstance(target, Tensor):
        yield target
        return
    if id(target) in seen:
        return
    seen.add(id(target))
    if isinstance(target, Mapping):
        for value in target.values():
            yield from _leaves(value, seen)
    elif isinstance(target, (list, tuple)):
        for value in target:
            yield from _leaves(value, seen)
    elif dataclasses.is_dataclass(target) and not isinstance(target, type):
        for field in dataclasses.fields(target):
            yield from _leaves(getattr(target, field.name, None), seen)


_warned: set[str] = set()


def swap_tensor_wrapper(
    target: _Target, tag: str | None = None, group_swap: bool = False, cpu_pool: Any = None
) -> _Target:
    """Marks the eligible tensors in `target` to be swapped, and returns `target` itself.

    They move when autograd saves them inside the enclosing region or group, whatever their size.
    Outside any: one warning per tag, and nothing changes.
    """
    from restow.mindspore._regions import check_pool, current_saver
    from restow.mindspore._saver import base_check_fn

    check_pool(cpu_pool)
    if not _enabled.is_enabled() or not records():
        return target
    tensors = [one for one in _leaves(target, set()) if base_check_fn(one)]
    if not tensors:
        return target
    saver = current_saver()
    name = tag if tag is not None else f"{saver.label if saver else 'no group'}_swap_tensor"
    if saver is None:
        if name not in _warned:
            _warned.add(name)
            warnings.warn(
                f"swap_tensor_wrapper(tag={name!r}): no group is active, so nothing is swapped; "
                "call it inside a swapped region or `with restow.mindspore.group(...)`",
                stacklevel=2,
            )
        return target
    if not saver.last:
        for one in tensors:
            saver.marks.add(one, name)
    return target
