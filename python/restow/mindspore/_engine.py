"""The engine of the process: whose memory it holds, the regions and slots it hands out.

MindSpore's memory is host memory here, so what a region saves is written to the file tier straight
from it, and read back into memory of the engine over which tensors are made: no copy in between.

Threads: slots may be dropped on any thread, also by the engine's own; everything else is called on
the thread of forward and backward.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_void_p, sizeof
from typing import Any

from restow.errors import ModifiedInPlace
from restow.mindspore import _settings
from restow.mindspore._library import (
    Address,
    Count,
    Options,
    RegionOptions,
    Stats,
    Storage,
    byref,
    check,
    lib,
)
from restow.mindspore._tensors import Form, Memory, checksum, tensor_over

__all__ = [
    "AUTOMATIC",
    "COUNTERS",
    "Engine",
    "KEEP",
    "LAST_MOVED",
    "Region",
    "SWAP",
    "Slot",
    "engine",
    "engines",
    "forget_past",
    "holders",
    "past",
]

AUTOMATIC, KEEP, SWAP = 0, 1, 2
# Reasons up to this one say that a storage moves (include/restow/swap/options.h).
LAST_MOVED = 3

# Without a word of the user: what may be on its way out, or brought back, at a time. Memory in
# transit is memory of the job here.
_WINDOW = 160 << 20


class _Held:
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
        self.by_sum: dict[int, _Held] = {}


class _Holders:
    """Handles of memory for the engine, which counts them through its callbacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._held: dict[int, _Held] = {}
        self._places: dict[tuple[int, int], _Place] = {}
        # (direction, label, bytes, begin, end in seconds), while somebody traces.
        self.traced: list[tuple[str, str, int, float, float]] | None = None

    def hold(self, tensor: Any, memory: Memory, total: int | None) -> tuple[int, _Held, _Held]:
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
            held = _Held(tensor, memory, total if guard is None else None, place.identity)
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


def _new_device() -> c_void_p:
    device = c_void_p()
    check(lib.restow_device_create_host(None, _retain, _release, _address, byref(device)))
    return device


class _Buffer:
    """Memory of the engine, brought back; lives as long as the tensors over it."""

    __slots__ = ("_pointer", "address", "nbytes")

    def __init__(self, pointer: c_void_p) -> None:
        self._pointer = pointer
        self.address = lib.restow_buffer_data(pointer)
        self.nbytes = lib.restow_buffer_bytes(pointer)

    def __del__(self) -> None:
        lib.restow_buffer_release(self._pointer)


class Slot:
    """One saved tensor in the engine; its end frees."""

    __slots__ = ("_form", "_held", "_pointer", "label", "reason", "watch")

    def __init__(self, pointer: c_void_p, reason: int, held: _Held, form: Form, label: str) -> None:
        self._pointer = pointer
        self._held = held
        self._form = form
        self.reason = reason
        self.label = label
        # Called before each unpack, for groups that are steered by hand.
        self.watch: Callable[[], None] | None = None
        held.slots += 1

    def __del__(self) -> None:
        self._held.slots -= 1
        lib.restow_slot_release(self._pointer)

    def unpack(self) -> Any:
        """A tensor with the bytes that were saved. Errors: ModifiedInPlace; the file tier's."""
        if self.watch is not None:
            self.watch()
        began = time.perf_counter()
        pointer, offset = c_void_p(), c_size_t()
        check(lib.restow_unpack(self._pointer, byref(pointer), byref(offset)))
        buffer = _Buffer(pointer)
        self._held.look()
        if self._held.changed:
            raise ModifiedInPlace(
                f"{self.label}: a saved tensor was changed in place before its backward; make the "
                "change out of place, or on a copy"
            )
        traced = holders.traced
        if traced is not None:
            traced.append(("in", self.label, buffer.nbytes, began, time.perf_counter()))
        return tensor_over(
            buffer.address + offset.value, buffer.nbytes - offset.value, buffer, self._form
        )


class Region:
    """One invocation: what is packed belongs to `site`. `end` it; slots outlive it."""

    __slots__ = ("_pointer",)

    def __init__(
        self, owner: Engine, site: str, group: str, manual: bool, min_bytes: int, fuse: bool
    ) -> None:
        options = RegionOptions(
            struct_size=sizeof(RegionOptions),
            site=site.encode(),
            group=group.encode() if group else None,
            manual=int(manual),
            on_file=1,
            min_bytes=min_bytes,
            fuse=int(fuse),
        )
        self._pointer: c_void_p | None = c_void_p()
        check(lib.restow_region_begin(owner.pointer, byref(options), byref(self._pointer)))

    def pack(
        self, tensor: Any, memory: Memory, form: Form, decision: int, total: int | None, label: str
    ) -> Slot:
        """The slot of a saved tensor. `total`: the checksum of its storage, or None."""
        handle, held, guard = holders.hold(tensor, memory, total)
        held.label = label
        storage = Storage(
            struct_size=sizeof(Storage),
            # Without a checksum nothing says that two saves of one storage hold the same bytes.
            identity=held.identity if total is not None else 0,
            version=total or 0,
            offset=0,
            bytes=memory.nbytes,
            memory=handle,
            memory_bytes=memory.nbytes,
        )
        pointer, reason = c_void_p(), c_int()
        try:
            check(
                lib.restow_pack(
                    self._pointer, byref(storage), decision, byref(pointer), byref(reason)
                )
            )
        except BaseException:
            holders.release(handle)
            raise
        return Slot(pointer, reason.value, guard, form, label)

    def end(self) -> None:
        if self._pointer is not None:
            lib.restow_region_end(self._pointer)
            self._pointer = None

    def __del__(self) -> None:
        self.end()


class Engine:
    """One engine under one set of settings."""

    def __init__(self, settings: _settings.Settings) -> None:
        self.settings = settings
        options = Options(struct_size=sizeof(Options))
        check(lib.restow_options_init(byref(options)))
        options.window_bytes = settings.window if settings.window >= 0 else _WINDOW
        options.host_cap_bytes = settings.host_cap
        options.min_bytes = settings.min_bytes
        options.keep_last_region = int(settings.keep_last_region)
        options.file_dir = settings.file_dir.encode() if settings.file_dir else None
        options.file_cap_bytes = settings.file_cap
        self.pointer: c_void_p | None = c_void_p()
        device = _new_device()
        try:
            check(lib.restow_engine_create(device, byref(options), byref(self.pointer)))
        finally:
            lib.restow_device_release(device)

    def begin(self, site: str, group: str, manual: bool, min_bytes: int, fuse: bool) -> Region:
        return Region(self, site, group, manual, min_bytes, fuse)

    def group_call(self, name: str, group: str) -> None:
        """`launch_offload`, `wait_offload`, `launch_load`, `wait_load` or `drop_group`."""
        check(getattr(lib, f"restow_{name}")(self.pointer, group.encode()))

    def stats(self) -> Stats:
        stats = Stats(struct_size=sizeof(Stats))
        check(lib.restow_get_stats(self.pointer, byref(stats)))
        return stats

    def reset_stats(self) -> None:
        check(lib.restow_reset_stats(self.pointer))

    def count_recomputed(self) -> None:
        check(lib.restow_count_recomputed_region(self.pointer))

    def drain(self) -> None:
        check(lib.restow_drain(self.pointer))

    def close(self) -> None:
        if self.pointer is not None:
            lib.restow_engine_release(self.pointer)
            self.pointer = None


_engines: dict[_settings.Settings, Engine] = {}


def engine() -> Engine:
    """The engine for the settings of now. Errors: InputError of the file tier."""
    settings = _settings.current()
    found = _engines.get(settings)
    if found is None:
        _forget_idle()
        found = _engines[settings] = Engine(settings)
    return found


def _forget_idle() -> None:
    """Engines of earlier settings end, with their files, once nothing of theirs is saved."""
    for settings, one in list(_engines.items()):
        if one.stats().units == 0:
            del _engines[settings]
            _fold(one)
            one.close()


# What ended engines had counted.
_past: dict[str, float] = {}


def _fold(one: Engine) -> None:
    stats = one.stats()
    for name in COUNTERS:
        _past[name] = _past.get(name, 0) + getattr(stats, name)


COUNTERS = (
    "bytes_out",
    "bytes_in",
    "stalls",
    "stall_s",
    "host_allocations",
    "file_bytes",
    "recomputed_regions",
    "cancelled",
    "demand_loads",
    "kept_host_full",
    "pin_failures",
    "device_errors",
    "tier_errors",
)


def past() -> dict[str, float]:
    """Counters of engines that have ended, since `reset_stats`."""
    return dict(_past)


def forget_past() -> None:
    _past.clear()


def engines() -> list[Engine]:
    """All engines that are in use, also of earlier settings."""
    return list(_engines.values())


@atexit.register
def _end() -> None:
    # Callbacks into Python must not come after it has gone.
    for one in engines():
        one.drain()
        one.close()
    _engines.clear()
