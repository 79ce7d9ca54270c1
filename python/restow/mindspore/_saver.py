"""The provider of a region: each saved tensor is moved, or kept and guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor

from restow._policy import decide
from restow.mindspore import _engine, _explain, _marks, _owners, _settings, _targets
from restow.mindspore._library import reason_text
from restow.mindspore._manager import Link
from restow.mindspore._providers import Kept, Provider, Saved, keep, looking, stack
from restow.mindspore._tensors import (
    Memory,
    alias,
    checksum,
    form_of,
    is_parameter,
    memory_of,
    quietly,
)

__all__ = ["Saver", "base_check_fn"]

Policy = Callable[[Any], Any]


def base_check_fn(x: Any) -> bool:
    """May `x` be swapped at all: a tensor with bytes, and neither a parameter nor part of one."""
    if not isinstance(x, Tensor) or is_parameter(x) or x.untyped_storage().nbytes() == 0:
        return False
    address = x.untyped_storage().data_ptr()
    if any(address in one.parameters for one in stack() if isinstance(one, Saver)):
        return False
    return address not in _owners.known()


class Saver(Provider):
    """One invocation of a region. ``swap``: moves; else it only guards and counts."""

    def __init__(
        self,
        site: str,
        *,
        swap: bool,
        parameters: set[int],
        policy_fn: Policy | None = None,
        group_swap: bool = False,
        min_bytes: int | None = None,
        group: str = "",
        manual: bool = False,
    ) -> None:
        super().__init__()
        self.site = site
        self.group = group
        self.label = group or site
        self.parameters = parameters
        self.marks = _marks.Marks()
        # In the last group of a chain, what is marked is left alone.
        self.last = False
        self.link: Link | None = None
        self._swap = swap
        self._policy = policy_fn
        self._fuse = group_swap
        settings = _settings.current()
        self._min_bytes = settings.min_bytes if min_bytes is None else min_bytes
        self._check = settings.check_changes and _targets.on_host()
        self._manual = manual
        self._region: _engine.Region | None = None
        self._rows = _explain.Rows(site)

    def leave(self) -> None:
        super().leave()
        region, self._region = self._region, None
        if region is not None:
            region.end()
        self.marks.close(self._rows)
        self._rows.close()

    def save(self, tensor: Any, by_operator: bool = False) -> Saved:
        if is_parameter(tensor):
            return Kept(tensor, self.label, False)
        memory = memory_of(tensor)
        if memory.nbytes == 0 or any(memory.address in one for one in self._known()):
            return Kept(tensor, self.label, False)
        if not tensor.device.startswith(_targets.target()):
            return keep(tensor, self.label)  # on the host already, where the job is on a device
        tag = self.marks.use(memory.address)
        label = f"{tag or self.label}::{tuple(tensor.shape)}"
        decision = self._decide(tensor, tag)
        if decision is None or (
            decision == _engine.AUTOMATIC and not self._fuse and memory.nbytes < self._min_bytes
        ):
            kept = keep(tensor, label)
            why = "smaller than min_bytes" if decision is not None else "the region keeps"
            self._rows.add(label, memory.nbytes, "keep", why)
            return kept
        return self._move(tensor, memory, decision, label)

    def _known(self) -> list[set[int]]:
        return [one.parameters for one in stack() if isinstance(one, Saver)] or [self.parameters]

    def _decide(self, tensor: Any, tag: str | None) -> int | None:
        """The engine's decision; None: the region does not move it."""
        if self._swap and self._policy is not None:
            with quietly():
                return decide(self._policy(tensor))
        if tag is not None:
            return _engine.SWAP
        return _engine.AUTOMATIC if self._swap else None

    def _move(self, tensor: Any, memory: Memory, decision: int, label: str) -> Saved:
        form = form_of(tensor)
        if form.contiguous and 4 * tensor.nbytes < memory.nbytes:
            # A small piece of a large storage moves alone.
            memory = Memory(tensor.data_ptr(), tensor.nbytes, memory.version)
            form = form._replace(offset=0, whole=True)
        total = checksum(memory.address, memory.nbytes) if self._check else None
        if self._region is None:
            one = _engine.engine()
            self._region = one.begin(
                self.site, self.group, self._manual, self._min_bytes, self._fuse
            )
            if self.link is not None:
                self.link.opened.add(id(one))
        slot = self._region.pack(alias(tensor), memory, form, decision, total, label)
        if self.link is not None:
            slot.watch = self.link.before_unpack
        moved = slot.reason <= _engine.LAST_MOVED
        self._rows.add(label, memory.nbytes, "swap" if moved else "keep", reason_text(slot.reason))
        return slot


def save_through(provider: Provider | None, tensor: Any, label: str) -> Saved:
    """As `provider` saves it; without one it is kept."""
    with looking():
        return keep(tensor, label) if provider is None else provider.save(tensor)
