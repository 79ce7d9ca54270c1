"""The engine's C face (include/restow/swap/c_api.h) through ctypes: types, functions, errors."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from typing import Any, ClassVar

import restow
from restow.errors import Error, InputError, OutOfMemory, Unsupported

__all__ = [
    "Address",
    "Count",
    "DeviceOps",
    "Options",
    "RegionOptions",
    "Stats",
    "Storage",
    "byref",
    "check",
    "lib",
    "reason_text",
]

_NAME = "librestow_swap_c.so"
_OK, _BAD_INPUT, _UNSUPPORTED, _OUT_OF_MEMORY = 0, 3, 4, 6

# Called with the context and a handle of the caller's.
Count = CFUNCTYPE(None, c_void_p, c_void_p)
Address = CFUNCTYPE(c_void_p, c_void_p, c_void_p)


_Number = POINTER(c_uint64)
_Handle = POINTER(c_void_p)


def _call(*arguments: Any) -> Any:
    """The type of a callback that gives 0, or anything else for a failure."""
    return CFUNCTYPE(c_int, c_void_p, *arguments)


class DeviceOps(Structure):
    """`restow_device_ops`."""

    CALLBACKS: ClassVar[dict[str, Any]] = {
        "current_stream": _call(_Number),
        "new_copy_stream": _call(c_int, _Number),
        "synchronize": _call(c_uint64),
        "new_event": _call(_Handle),
        "free_event": CFUNCTYPE(None, c_void_p, c_void_p),
        "record": _call(c_void_p, c_uint64),
        "stream_wait": _call(c_uint64, c_void_p),
        "event_done": _call(c_void_p, POINTER(c_int)),
        "host_wait": _call(c_void_p),
        "allocate": _call(c_size_t, c_uint64, _Handle),
        "retain": Count,
        "release": Count,
        "note_use": _call(c_void_p, c_uint64),
        "host_address": Address,
        "allocate_host": _call(c_size_t, c_int, _Handle),
        "free_host": CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_int),
        "copy_out": _call(c_void_p, c_void_p, c_size_t, c_size_t, c_uint64),
        "copy_in": _call(c_void_p, c_size_t, c_void_p, c_size_t, c_uint64),
        "last_error": CFUNCTYPE(c_void_p, c_void_p),
        "copy_on_device": _call(
            c_void_p, c_size_t, c_void_p, c_size_t, c_size_t, c_uint64
        ),
    }
    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("pinned_memory", c_int),
        ("async_copies", c_int),
        ("copy_streams", c_int),
        ("frees_in_stream_order", c_int),
        *CALLBACKS.items(),
    ]


class Options(Structure):
    """`restow_options`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("window_bytes", c_int64),
        ("host_cap_bytes", c_int64),
        ("min_bytes", c_int64),
        ("fused_bytes", c_int64),
        ("when_full", c_int),
        ("keep_last_region", c_int),
        ("keep_after_use", c_int),
        ("file_dir", c_char_p),
        ("file_cap_bytes", c_int64),
        ("watchdog_s", c_double),
        ("on_trouble", c_void_p),
        ("trouble_context", c_void_p),
    ]


class RegionOptions(Structure):
    """`restow_region_options`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("site", c_char_p),
        ("group", c_char_p),
        ("manual", c_int),
        ("on_file", c_int),
        ("min_bytes", c_int64),
        ("fuse", c_int),
    ]


class Storage(Structure):
    """`restow_storage`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("identity", c_uint64),
        ("version", c_uint64),
        ("offset", c_size_t),
        ("bytes", c_size_t),
        ("memory", c_void_p),
        ("memory_bytes", c_size_t),
    ]


class Stats(Structure):
    """`restow_stats`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("bytes_out", c_int64),
        ("bytes_in", c_int64),
        ("stalls", c_int64),
        ("stall_s", c_double),
        ("host_allocations", c_int64),
        ("file_bytes", c_int64),
        ("recomputed_regions", c_int64),
        ("cancelled", c_int64),
        ("demand_loads", c_int64),
        ("kept_host_full", c_int64),
        ("pin_failures", c_int64),
        ("device_errors", c_int64),
        ("tier_errors", c_int64),
        ("units", c_int64),
        ("slots", c_int64),
        ("host_reserved_bytes", c_int64),
        ("host_used_bytes", c_int64),
        ("held_elsewhere_bytes", c_int64),
        ("swapped_bytes", c_int64),
    ]


# name -> (result, arguments); `c_int` results are a restow_status.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "restow_last_error": (c_char_p, []),
    "restow_version": (c_char_p, []),
    "restow_device_create_host": (c_int, [c_void_p, Count, Count, Address, POINTER(c_void_p)]),
    "restow_device_create": (c_int, [POINTER(DeviceOps), POINTER(c_void_p)]),
    "restow_device_release": (None, [c_void_p]),
    "restow_options_init": (c_int, [POINTER(Options)]),
    "restow_engine_create": (c_int, [c_void_p, POINTER(Options), POINTER(c_void_p)]),
    "restow_engine_release": (None, [c_void_p]),
    "restow_region_begin": (c_int, [c_void_p, POINTER(RegionOptions), POINTER(c_void_p)]),
    "restow_region_end": (None, [c_void_p]),
    "restow_pack": (
        c_int,
        [c_void_p, POINTER(Storage), c_int, POINTER(c_void_p), POINTER(c_int)],
    ),
    "restow_reason_text": (c_char_p, [c_int]),
    "restow_unpack": (c_int, [c_void_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "restow_slot_release": (None, [c_void_p]),
    "restow_buffer_memory": (c_void_p, [c_void_p]),
    "restow_buffer_data": (c_void_p, [c_void_p]),
    "restow_buffer_bytes": (c_size_t, [c_void_p]),
    "restow_buffer_release": (None, [c_void_p]),
    "restow_step": (c_int, [c_void_p]),
    "restow_drain": (c_int, [c_void_p]),
    "restow_launch_offload": (c_int, [c_void_p, c_char_p]),
    "restow_wait_offload": (c_int, [c_void_p, c_char_p]),
    "restow_launch_load": (c_int, [c_void_p, c_char_p]),
    "restow_wait_load": (c_int, [c_void_p, c_char_p]),
    "restow_drop_group": (c_int, [c_void_p, c_char_p]),
    "restow_get_stats": (c_int, [c_void_p, POINTER(Stats)]),
    "restow_reset_stats": (c_int, [c_void_p]),
    "restow_count_recomputed_region": (c_int, [c_void_p]),
    "restow_checksum": (c_uint64, [c_void_p, c_size_t]),
    "restow_dump": (c_int, [c_void_p, POINTER(c_char_p)]),
}


def _find() -> pathlib.Path:
    named = os.environ.get("RESTOW_ENGINE_LIBRARY")
    if named:
        return pathlib.Path(named)
    folders = [pathlib.Path(folder) for folder in restow.__path__]
    for folder in folders:
        if (folder / _NAME).is_file():
            return folder / _NAME
    looked = ", ".join(str(folder) for folder in folders)
    raise ImportError(
        f"the engine's library {_NAME} is not in {looked}; build it with ./run python-mindspore, "
        "or name it in RESTOW_ENGINE_LIBRARY"
    )


def _load() -> ctypes.CDLL:
    # A CDLL gives up the interpreter's lock during each call, as the face asks for.
    library = ctypes.CDLL(str(_find()))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()


def check(status: int) -> None:
    """Turns a status into the exception it stands for, with the engine's message."""
    if status == _OK:
        return
    message = (lib.restow_last_error() or b"").decode("utf-8", "replace")
    kinds = {_BAD_INPUT: InputError, _UNSUPPORTED: Unsupported, _OUT_OF_MEMORY: OutOfMemory}
    raise kinds.get(status, Error)(message)


def reason_text(reason: int) -> str:
    """The sentence for a reason that `restow_pack` gave."""
    return bytes(lib.restow_reason_text(reason)).decode()
