"""swap_tensor_wrapper: chosen tensors move, wherever in the region autograd saves them."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Optional, TypeVar

import torch

from restow import _enabled
from restow.torch import _steering
from restow.torch._load import native
from restow.torch._regions import HostPool, base_check_fn, warn_once

_Target = TypeVar("_Target")


def _leaves(target: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if isinstance(target, torch.Tensor):
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


def swap_tensor_wrapper(
    target: _Target,
    tag: Optional[str] = None,
    group_swap: bool = False,
    cpu_pool: Optional[HostPool] = None,
) -> _Target:
    """Marks the eligible tensors in `target` to be swapped, and returns `target` itself.

    They move when autograd saves them inside the enclosing region or group, whatever their size.
    Outside any: one warning per tag, and nothing changes. In the last group of a chain they stay;
    what a checkpoint recomputes, too.
    """
    if not _enabled.is_enabled() or not torch.is_grad_enabled():
        return target
    group = _steering.current()
    if group.alone:
        return target
    tensors = [one for one in _leaves(target, set()) if base_check_fn(one)]
    if not tensors:
        return target
    label = native.current_label()
    name = tag if tag is not None else f"{group.name or label or 'no group'}_swap_tensor"
    if label is None and native.saves_are_taken():
        return target
    if label is None:
        warn_once(
            name,
            f"swap_tensor_wrapper(tag={name!r}): no group is active, so nothing is swapped; call "
            "it inside a swapped region or `with restow.torch.group(...)`",
        )
        return target
    for one in tensors:
        native.mark(one, name)
    return target
