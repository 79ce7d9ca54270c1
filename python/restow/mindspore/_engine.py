"""The engine of the process: whose memory it holds, the regions and slots it hands out.

On CPU what a region saves is written to the file tier straight from MindSpore's memory, and read
back into memory of the engine over which tensors are made: no copy in between. On a device with
streams copies go to host memory and back, as `StreamDevice` queues them.

Threads: slots may be dropped on any thread, also by the engine's own; everything else is called on
the thread of forward and backward.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_void_p, sizeof
from typing import Any

from restow.errors import ModifiedInPlace
from restow.mindspore import _settings, _targets
from restow.mindspore._holders import Held, holders, host_device
from restow.mindspore._library import Options, RegionOptions, Stats, Storage, byref, check, lib
from restow.mindspore._runtime import MindSporeRuntime
from restow.mindspore._streams import Runtime, StreamDevice
from restow.mindspore._tensors import Form, Memory, bytes_of, tensor_from, tensor_over

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
    "past",
]

AUTOMATIC, KEEP, SWAP = 0, 1, 2
# Reasons up to this one say that a storage moves (include/restow/swap/options.h).
LAST_MOVED = 3

# Without a word of the user: what may be on its way out, or brought back, at a time. Memory in
# transit is memory of the job here.
_WINDOW = 128 << 20

# What devices with streams are made of.
runtime: Callable[[], Runtime] = MindSporeRuntime
# Slots may outlive their engine, and call back into the table.
_streamed: list[StreamDevice] = []


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

    __slots__ = ("_form", "_held", "_pointer", "_streams", "label", "reason", "watch")

    def __init__(
        self,
        pointer: c_void_p,
        reason: int,
        held: Held,
        form: Form,
        label: str,
        streams: StreamDevice | None,
    ) -> None:
        self._pointer = pointer
        self._streams = streams
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
        if self._streams is not None:
            return self._from_device(self._streams, pointer, offset.value)
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

    def _from_device(self, streams: StreamDevice, pointer: c_void_p, offset: int) -> Any:
        try:
            flat = streams.memory(lib.restow_buffer_memory(pointer))
        finally:
            # The tensor itself keeps its memory.
            lib.restow_buffer_release(pointer)
        return tensor_from(flat, offset, self._form)


class Region:
    """One invocation: what is packed belongs to `site`. `end` it; slots outlive it."""

    __slots__ = ("_pointer", "_streams")

    def __init__(
        self, owner: Engine, site: str, group: str, manual: bool, min_bytes: int, fuse: bool
    ) -> None:
        options = RegionOptions(
            struct_size=sizeof(RegionOptions),
            site=site.encode(),
            group=group.encode() if group else None,
            manual=int(manual),
            on_file=int(owner.streams is None),
            min_bytes=min_bytes,
            fuse=int(fuse),
        )
        self._streams = owner.streams
        self._pointer: c_void_p | None = c_void_p()
        check(lib.restow_region_begin(owner.pointer, byref(options), byref(self._pointer)))

    def pack(
        self, tensor: Any, memory: Memory, form: Form, decision: int, total: int | None, label: str
    ) -> Slot:
        """The slot of a saved tensor. `total`: the checksum of its storage, or None."""
        streams = self._streams
        if streams is not None:
            handle = streams.hold(bytes_of(tensor, memory, form))
            try:
                return self._pack(handle, 0, memory, form, decision, None, label)
            finally:
                streams.release(handle)
        handle, held, guard = holders.hold(tensor, memory, total)
        held.label = label
        try:
            return self._pack(handle, held.identity, memory, form, decision, guard, label)
        except BaseException:
            holders.release(handle)
            raise

    def _pack(
        self,
        handle: int,
        identity: int,
        memory: Memory,
        form: Form,
        decision: int,
        guard: Held | None,
        label: str,
    ) -> Slot:
        total = None if guard is None else guard.sum
        storage = Storage(
            struct_size=sizeof(Storage),
            # Without a checksum nothing says that two saves of one storage hold the same bytes.
            identity=identity if total is not None else 0,
            version=total or 0,
            offset=0,
            bytes=memory.nbytes,
            memory=handle,
            memory_bytes=memory.nbytes,
        )
        pointer, reason = c_void_p(), c_int()
        check(
            lib.restow_pack(self._pointer, byref(storage), decision, byref(pointer), byref(reason))
        )
        held = guard or Held(None, memory, None, 0)
        return Slot(pointer, reason.value, held, form, label, self._streams)

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
        # None: the memory of tensors is host memory.
        self.streams = None if _targets.on_host() else StreamDevice(runtime())
        if self.streams is not None:
            _streamed.append(self.streams)
        device = host_device() if self.streams is None else self.streams.create()
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


_engines: dict[tuple[_settings.Settings, str], Engine] = {}


def engine() -> Engine:
    """The engine for the settings of now. Errors: InputError of the file tier."""
    settings = _settings.current()
    key = settings, _targets.target()
    found = _engines.get(key)
    if found is None:
        _forget_idle()
        found = _engines[key] = Engine(settings)
    return found


def _forget_idle() -> None:
    """Engines of earlier settings end, with their files, once nothing of theirs is saved."""
    for key, one in list(_engines.items()):
        if one.stats().units == 0:
            del _engines[key]
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
