"""What `Applied.report` answers: bytes predicted by a plan against bytes measured, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_HEADINGS = ("module", "mode", "kept bytes", "", "", "swapped bytes", "", "")
_SECOND = ("", "", "predicted", "measured", "off %", "predicted", "measured", "off %")


def percent_off(predicted: int, measured: int) -> float:
    """100·(predicted − measured)/measured; 0 where both are 0, infinite where only measured is."""
    if measured == 0:
        return 0.0 if predicted == 0 else float("inf")
    return 100.0 * (predicted - measured) / measured


@dataclass(frozen=True)
class SiteBytes:
    """Of the last finished invocation of a region: storages once, without parameters."""

    kept_bytes: int
    swapped_bytes: int
    invocations: int


@dataclass(frozen=True)
class RegionRow:
    """One module under a plan; bytes of one micro-batch, each storage once."""

    module: str
    mode: str
    predicted_kept_bytes: int
    predicted_swapped_bytes: int
    kept_bytes: int | None
    """None: not measured, because the module has not run since the plan was applied."""
    swapped_bytes: int | None

    @property
    def kept_off_pct(self) -> float | None:
        """100·(predicted − measured)/measured of what stayed on the device."""
        if self.kept_bytes is None:
            return None
        return percent_off(self.predicted_kept_bytes, self.kept_bytes)

    @property
    def swapped_off_pct(self) -> float | None:
        """100·(predicted − measured)/measured of what was swapped."""
        if self.swapped_bytes is None:
            return None
        return percent_off(self.predicted_swapped_bytes, self.swapped_bytes)


@dataclass(frozen=True)
class PlanReport:
    """Predicted against measured, a row for each module; prints as a table."""

    rows: tuple[RegionRow, ...]

    def __iter__(self) -> Iterator[RegionRow]:
        return iter(self.rows)

    @property
    def total(self) -> RegionRow:
        """The sum of the rows that were measured; not measured when none was."""
        measured = [row for row in self.rows if row.kept_bytes is not None]
        return RegionRow(
            module=f"{len(measured)} of {len(self.rows)} modules",
            mode="",
            predicted_kept_bytes=sum(row.predicted_kept_bytes for row in measured),
            predicted_swapped_bytes=sum(row.predicted_swapped_bytes for row in measured),
            kept_bytes=sum(row.kept_bytes or 0 for row in measured) if measured else None,
            swapped_bytes=sum(row.swapped_bytes or 0 for row in measured) if measured else None,
        )

    def __str__(self) -> str:
        lines = [_HEADINGS, _SECOND, *(_cells(row) for row in (*self.rows, self.total))]
        widths = [max(len(line[i]) for line in lines) for i in range(len(_SECOND))]
        return "\n".join(_line(cells, widths) for cells in lines)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    words = [text.ljust(width) for text, width in zip(cells[:2], widths[:2], strict=True)]
    figures = [text.rjust(width) for text, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join(words + figures).rstrip()


def _cells(row: RegionRow) -> tuple[str, ...]:
    return (
        row.module,
        row.mode,
        f"{row.predicted_kept_bytes:,}",
        _count(row.kept_bytes),
        _percent(row.kept_off_pct),
        f"{row.predicted_swapped_bytes:,}",
        _count(row.swapped_bytes),
        _percent(row.swapped_off_pct),
    )


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
