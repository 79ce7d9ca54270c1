"""A device with streams for the engine: its table of callbacks over a `Runtime`.

Device memory is a flat uint8 tensor, which the engine holds by a counted handle. Copies and
allocations are made within their stream, events order them; nothing here waits but `synchronize`
and `host_wait`.

Threads: the engine calls from any. Handles and numbers are guarded by a lock that is held across no
call of the runtime.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Callable
from ctypes import c_void_p
from typing import Any, Protocol

from restow.mindspore._library import DeviceOps, byref, check, lib

__all__ = ["Runtime", "StreamDevice"]


class Runtime(Protocol):
    """What the mapping needs of a framework's streams, events and memory."""

    def current_stream(self) -> Any: ...

    def new_stream(self) -> Any: ...

    def stream_number(self, stream: Any) -> int:
        """Equal for two objects that stand for one stream, and below 2**64."""

    def new_event(self) -> Any:
        """Has ``record(stream)``, ``wait(stream)``, ``query()`` and ``synchronize()``."""

    def using(self, stream: Any) -> contextlib.AbstractContextManager[Any]: ...

    def empty(self, nbytes: int) -> Any:
        """A flat uint8 tensor of device memory, allocated on the stream in use."""

    def empty_host(self, nbytes: int, pinned: bool) -> Any:
        """A flat uint8 tensor of host memory, aligned to 64 bytes."""

    def copy(self, to: Any, source: Any) -> None:
        """Queues a copy between slices of such tensors on the stream in use; returns at once."""


class _Counted:
    __slots__ = ("count", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.count = 1


class _Slab:
    """Host memory as it was allocated; the engine copies to and from parts of it."""

    __slots__ = ("address", "nbytes", "tensor")

    def __init__(self, tensor: Any, nbytes: int) -> None:
        self.tensor = tensor
        self.address = int(tensor.data_ptr())
        self.nbytes = nbytes


class StreamDevice:
    """Lives as long as the last engine, slot and buffer over it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._memory: dict[int, _Counted] = {}
        self._slabs: dict[int, _Slab] = {}
        self._streams: dict[int, Any] = {}
        self._events: dict[int, Any] = {}
        self._failure = threading.local()
        self._ops = DeviceOps(struct_size=ctypes.sizeof(DeviceOps))
        self._ops.pinned_memory = self._ops.async_copies = 1
        self._ops.copy_streams = 2
        # MindSpore does not say when memory that is let go may be used by another stream, so the
        # engine waits for the copy's event before it lets go.
        self._ops.frees_in_stream_order = 0
        for name, kind in DeviceOps.CALLBACKS.items():
            if hasattr(self, f"_{name}"):
                setattr(self._ops, name, kind(self._guarded(name)))

    def create(self) -> c_void_p:
        """The engine's device over the table; end it with ``restow_device_release``."""
        device = c_void_p()
        check(lib.restow_device_create(byref(self._ops), byref(device)))
        return device

    # Handles of memory.

    def hold(self, flat: Any) -> int:
        """A handle with one reference, for a flat uint8 tensor. End it with `release`."""
        with self._lock:
            handle = next(self._numbers)
            self._memory[handle] = _Counted(flat)
        return handle

    def memory(self, handle: int) -> Any:
        return self._memory[handle].tensor

    def release(self, handle: int) -> None:
        with self._lock:
            held = self._memory[handle]
            held.count -= 1
            if held.count == 0:
                del self._memory[handle]
        # The tensor itself goes here, without the lock.
        del held

    def counts(self) -> dict[str, int]:
        """What is held now."""
        with self._lock:
            return {
                "memory": len(self._memory),
                "host memory": len(self._slabs),
                "events": len(self._events),
            }

    # Callbacks: what one returns is written through its last pointer.

    def _guarded(self, name: str) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(self, f"_{name}")
        if name in ("retain", "release", "free_event", "free_host", "last_error"):
            return lambda context, *arguments: call(*arguments)

        def guarded(context: Any, *arguments: Any) -> int:
            try:
                call(*arguments)
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
                self._failure.text = ctypes.create_string_buffer(text.encode())
                return 1
            return 0

        return guarded

    def _last_error(self) -> int | None:
        text = getattr(self._failure, "text", None)
        return None if text is None else ctypes.addressof(text)

    def _number_of(self, stream: Any) -> int:
        number = self._runtime.stream_number(stream)
        with self._lock:
            self._streams.setdefault(number, stream)
        return number

    def _current_stream(self, number: Any) -> None:
        number[0] = self._number_of(self._runtime.current_stream())

    def _new_copy_stream(self, inwards: int, number: Any) -> None:
        number[0] = self._number_of(self._runtime.new_stream())

    def _synchronize(self, stream: int) -> None:
        self._streams[stream].synchronize()

    def _new_event(self, event: Any) -> None:
        made = self._runtime.new_event()
        with self._lock:
            number = next(self._numbers)
            self._events[number] = made
        event[0] = number

    def _free_event(self, event: int) -> None:
        with self._lock:
            made = self._events.pop(event)
        del made

    def _record(self, event: int, stream: int) -> None:
        self._events[event].record(self._streams[stream])

    def _stream_wait(self, stream: int, event: int) -> None:
        self._events[event].wait(self._streams[stream])

    def _event_done(self, event: int, done: Any) -> None:
        done[0] = int(bool(self._events[event].query()))

    def _host_wait(self, event: int) -> None:
        self._events[event].synchronize()

    def _allocate(self, nbytes: int, stream: int, memory: Any) -> None:
        with self._runtime.using(self._streams[stream]):
            flat = self._runtime.empty(nbytes)
        memory[0] = self.hold(flat)

    def _retain(self, handle: int) -> None:
        with self._lock:
            self._memory[handle].count += 1

    def _release(self, handle: int) -> None:
        self.release(handle)

    def _allocate_host(self, nbytes: int, pinned: int, data: Any) -> None:
        slab = _Slab(self._runtime.empty_host(nbytes, bool(pinned)), nbytes)
        with self._lock:
            self._slabs[slab.address] = slab
        data[0] = slab.address

    def _free_host(self, data: int, nbytes: int, pinned: int) -> None:
        with self._lock:
            slab = self._slabs.pop(data)
        del slab

    def _host_part(self, address: int, nbytes: int) -> Any:
        with self._lock:
            slabs = list(self._slabs.values())
        for slab in slabs:
            at = address - slab.address
            if 0 <= at and at + nbytes <= slab.nbytes:
                return slab.tensor[at : at + nbytes]
        raise LookupError(f"{nbytes} bytes of the host at {address:#x} belong to no allocation")

    def _copy_out(self, to: int, source: int, offset: int, nbytes: int, stream: int) -> None:
        with self._runtime.using(self._streams[stream]):
            part = self.memory(source)[offset : offset + nbytes]
            self._runtime.copy(self._host_part(to, nbytes), part)

    def _copy_in(self, to: int, offset: int, source: int, nbytes: int, stream: int) -> None:
        with self._runtime.using(self._streams[stream]):
            part = self.memory(to)[offset : offset + nbytes]
            self._runtime.copy(part, self._host_part(source, nbytes))
