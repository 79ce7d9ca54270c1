"""Answers of validate and calibrate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._reports import Report


@dataclass(frozen=True, repr=False, kw_only=True)
class ValidationReport(Report):
    """Predictions held against measured runs (``restow.validation/1``).

    pct = 100 (predicted - measured) / measured; bias is its median.
    """

    rows: int
    unscorable: list[Mapping[str, Any]]
    memory: Mapping[str, float]
    time: Mapping[str, float]
    oom: Mapping[str, int]
    fits: Mapping[str, int]
    ranking: Mapping[str, float]
    by_source: list[Mapping[str, Any]]
    worst: list[Mapping[str, Any]]

    def _about(self) -> str:
        return f": {self.rows} rows"


@dataclass(frozen=True, repr=False, kw_only=True)
class Calibration(Report):
    """Constants fitted to measured runs."""

    id: str
    rows: int

    def _about(self) -> str:
        return f" {self.id}: {self.rows} measured runs"
