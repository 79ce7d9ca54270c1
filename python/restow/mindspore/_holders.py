"""Memory of MindSpore's that the engine holds on CPU, where it is host memory.

Threads: handles may be released on any thread, also by the engine's own.
"""

from __future__ import annotations

import itertools
import threading
import time
from ctypes import c_void_p
from typing import Any

from restow.mindspore._library import Address, Count, byref, check, lib
from restow.mindspore._tensors import Memory, checksum

__all__ = ["Held", "holders", "host_device"]


class Held:
    """Memory that the engine holds: the tensor keeps it alive, the checksum guards it."""

    __slots__ = (
        "address", "began", "changed", "identity", "label", "nbytes", "slots", "sum", "tensor"
    )

    def __init__(self, tensor: Any, memory: Memory, total: int | None, identity: int) -> None:
        self.tensor = tensor
        self.address = memory.address
        self.nbytes = memory.nbytes
        self.sum = total
        self.identity = identity
        self.changed = False
        self.slots = 0
        self.label = ""
        self.began = 0.0

    def look(self) -> None:
        """Notices a change, as long as the memory is held and somebody may still ask for it."""
        if self.sum is None or self.changed or self.slots == 0 or self.tensor is None:
            return
        self.changed = self.sum != checksum(self.address, self.nbytes)


class _Place:
    """Memory that is held by one or more handles, by content."""

    __slots__ = ("by_sum", "handles", "identity")

    def __init__(self, identity: int) -> None:
        self.identity = identity
        self.handles = 0
        self.by_sum: dict[int, Held] = {}


class _Holders:
    """Handles of memory for the engine, which counts them through its callbacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._held: dict[int, Held] = {}
        self._places: dict[tuple[int, int], _Place] = {}
        # (direction, label, bytes, begin, end in seconds), while somebody traces.
        self.traced: list[tuple[str, str, int, float, float]] | None = None

    def hold(self, tensor: Any, memory: Memory, total: int | None) -> tuple[int, Held, Held]:
        """A handle, what it holds, and what guards the content, which may have been held before.

        Memory held already has one identity, until all its handles are released: meanwhile no
        other storage can lie there.
        """
        where = (memory.address, memory.nbytes)
        with self._lock:
            place = self._places.get(where)
            if place is None:
                place = self._places[where] = _Place(next(self._numbers))
            place.handles += 1
            handle = next(self._numbers)
            guard = place.by_sum.get(total) if total is not None else None
            # What is guarded already needs no second look when this handle goes.
            held = Held(tensor, memory, total if guard is None else None, place.identity)
            self._held[handle] = held
            if guard is None and total is not None:
                place.by_sum[total] = held
        held.began = time.perf_counter()
        return handle, held, guard or held

    def address(self, handle: int) -> int:
        return self._held[handle].address

    def release(self, handle: int) -> None:
        held = self._held.get(handle)
        if held is None:
            return
        # The last moment at which a change could have reached the bytes that were written.
        held.look()
        traced = self.traced
        if traced is not None and held.slots:
            now = time.perf_counter()
            traced.append(("out", held.label, held.nbytes, held.began, now))
        where = (held.address, held.nbytes)
        with self._lock:
            del self._held[handle]
            place = self._places.get(where)
            if place is not None and place.identity == held.identity:
                place.handles -= 1
                if place.handles == 0:
                    del self._places[where]
        held.tensor = None

    def count(self) -> int:
        return len(self._held)


holders = _Holders()

_retain = Count(lambda context, memory: None)
_release = Count(lambda context, memory: holders.release(memory))
_address = Address(lambda context, memory: holders.address(memory))


def host_device() -> c_void_p:
    device = c_void_p()
    check(lib.restow_device_create_host(None, _retain, _release, _address, byref(device)))
    return device
