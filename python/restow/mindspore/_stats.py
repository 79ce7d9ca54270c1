"""What was moved, what waited: a snapshot, and a trace."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterator
from typing import Any, Union

from restow.errors import Error, InputError
from restow.mindspore import _engine, _explain
from restow.mindspore._holders import holders

__all__ = ["Stats", "reset_stats", "stats", "trace"]


@dataclasses.dataclass(frozen=True)
class Stats:
    """A snapshot. Bytes and seconds.

    Now: ``units``, ``slots``, ``host_reserved_bytes``, ``host_used_bytes``,
    ``held_elsewhere_bytes`` (given up, but still held by somebody else), ``swapped_bytes``.
    Everything else: since `reset_stats`.
    """

    units: int
    slots: int
    bytes_out: int
    bytes_in: int
    stalls: int
    stall_s: float
    host_allocations: int
    file_bytes: int
    recomputed_regions: int
    host_reserved_bytes: int
    host_used_bytes: int
    held_elsewhere_bytes: int
    swapped_bytes: int
    cancelled: int
    demand_loads: int
    kept_host_full: int
    pin_failures: int
    device_errors: int
    tier_errors: int


def stats() -> Stats:
    """Summed over the engines that are in use."""
    sums: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(Stats)}
    sums.update({name: sums[name] + value for name, value in _engine.past().items()})
    for one in _engine.engines():
        now = one.stats()
        for name in sums:
            sums[name] += getattr(now, name)
    return Stats(**sums)


def reset_stats() -> None:
    """Counters back to 0, and what `explain` would say forgotten."""
    _engine.forget_past()
    for one in _engine.engines():
        one.reset_stats()
    _explain.forget()


def _chrome_events(rows: list[tuple[str, str, int, float, float]]) -> list[dict[str, Any]]:
    """Perfetto reads Chrome's trace format: times in microseconds, one line per direction."""
    events: list[dict[str, Any]] = []
    for line, text in ((1, "leaving memory"), (2, "waiting for its return")):
        events.append(
            {"ph": "M", "pid": 0, "tid": line, "name": "thread_name", "args": {"name": text}}
        )
    for direction, label, count, begin, end in rows:
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": 1 if direction == "out" else 2,
                "name": label,
                "ts": begin * 1e6,
                "dur": (end - begin) * 1e6,
                "args": {"bytes": count},
            }
        )
    return events


@contextlib.contextmanager
def trace(path: Union[str, pathlib.Path]) -> Iterator[None]:
    """Writes what moves inside, and when, to `path` for Perfetto (ui.perfetto.dev).

    "leaving memory" lasts from a tensor's save until its memory is given up, "waiting for its
    return" as long as backward waited for it.
    """
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise InputError(f"trace: the folder {target.parent} does not exist")
    if holders.traced is not None:
        raise Error("trace: another trace is under way; one at a time")
    rows: list[tuple[str, str, int, float, float]] = []
    holders.traced = rows
    try:
        yield
    finally:
        holders.traced = None
        part = target.with_name(target.name + ".part")
        part.write_text(json.dumps({"traceEvents": _chrome_events(rows)}))
        part.replace(target)
