"""What was moved, what waited, and why."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterator
from typing import Any, Union

from restow._explanations import Explanations
from restow._plan_report import SiteBytes
from restow.errors import InputError
from restow.torch._load import native


@dataclasses.dataclass(frozen=True)
class Stats:
    """A snapshot, summed over devices. Bytes and seconds.

    Now: ``units``, ``slots``, ``host_reserved_bytes``, ``host_used_bytes``,
    ``held_elsewhere_bytes`` (given up, but still held by somebody else), ``leaving_bytes``,
    ``brought_bytes``, ``swapped_bytes``, ``prefetch_distance``. Everything else: since `reset_stats`.
    """

    units: int
    slots: int
    bytes_out: int
    bytes_in: int
    moved_units: int
    stalls: int
    stall_s: float
    host_allocations: int
    file_bytes: int
    recomputed_regions: int
    host_reserved_bytes: int
    host_used_bytes: int
    held_elsewhere_bytes: int
    leaving_bytes: int
    brought_bytes: int
    swapped_bytes: int
    abandoned_bytes: int
    cancelled: int
    demand_loads: int
    host_waits: int
    kept_host_full: int
    kept_window_full: int
    kept_last_region: int
    pin_failures: int
    device_errors: int
    tier_errors: int
    fused_batches: int
    prefetch_distance: int
    last_error: str


def stats() -> Stats:
    return Stats(**native.stats())


def reset_stats() -> None:
    """Counters back to 0, and what `explain` would say forgotten."""
    native.reset_stats()
    native.forget_explanations()


def explain() -> Explanations:
    """Why each saved tensor was or was not moved, in the last invocation of every region."""
    return Explanations(native.explain())


def site_bytes() -> dict[str, SiteBytes]:
    return {name: SiteBytes(*figures) for name, figures in native.site_bytes().items()}


def _chrome_events(rows: list[Any]) -> list[dict[str, Any]]:
    """Perfetto reads Chrome's trace format: times in microseconds, one line per direction."""
    devices = sorted({row[0] for row in rows})
    events: list[dict[str, Any]] = []
    for number, device in enumerate(devices):
        events.append({"ph": "M", "pid": number, "name": "process_name", "args": {"name": device}})
        for line, text in ((1, "device to host"), (2, "host to device")):
            events.append(
                {"ph": "M", "pid": number, "tid": line, "name": "thread_name",
                 "args": {"name": text}}
            )
    for device, out, unit, site, count, begin, end in rows:
        events.append(
            {
                "ph": "X",
                "pid": devices.index(device),
                "tid": 1 if out else 2,
                "name": site,
                "ts": begin * 1e6,
                "dur": (end - begin) * 1e6,
                "args": {"unit": unit, "bytes": count},
            }
        )
    return events


@contextlib.contextmanager
def trace(path: Union[str, pathlib.Path]) -> Iterator[None]:
    """Writes what is copied inside, and when, to `path` for Perfetto (ui.perfetto.dev)."""
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise InputError(f"trace: the folder {target.parent} does not exist")
    native.start_trace()
    try:
        yield
    finally:
        rows = native.stop_trace()
        part = target.with_name(target.name + ".part")
        part.write_text(json.dumps({"traceEvents": _chrome_events(rows)}))
        part.replace(target)
