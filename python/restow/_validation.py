"""Answers of validate and calibrate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _frame, _html, _restow
from ._reports import Report

if TYPE_CHECKING:
    import pandas

_SCORE = ("id", "kind", "instrument", "measured", "predicted", "pct")
_FITTED = ("name", "before", "value", "spread", "rows", "determined", "remark")


@dataclass(frozen=True, repr=False, kw_only=True)
class _Table(Report):
    """A report whose rows are plain mappings."""

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return []

    def _columns(self) -> Sequence[str]:
        return ()

    def _repr_html_(self) -> str:
        return _html.records(self._columns(), self._records(), self._html_title())

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per figure. Raises ImportError where pandas is missing."""
        return _frame.records(self._columns(), self._records())


@dataclass(frozen=True, repr=False, kw_only=True)
class ValidationReport(_Table):
    """Predictions held against measured runs (``restow.validation/1``).

    pct = 100 (predicted - measured) / measured; bias is its median.
    """

    rows: int
    calibration: Mapping[str, Any]
    left_out: list[Mapping[str, Any]]
    unscorable: list[Mapping[str, Any]]
    memory: Mapping[str, float]
    time: Mapping[str, float]
    oom: Mapping[str, int]
    fits: Mapping[str, int]
    ranking: Mapping[str, Any]
    groups: list[Mapping[str, Any]]
    """By source, model or device, as asked for."""
    worst: list[Mapping[str, Any]]
    scores: list[Mapping[str, Any]]

    def _about(self) -> str:
        return f": {self.rows} runs"

    def _html_title(self) -> str:
        return (
            f"{self.rows} measured runs: memory {self.memory['median_abs_pct']:.1f} %, "
            f"time {self.time['median_abs_pct']:.1f} % at the median; furthest off:"
        )

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return self.scores

    def _columns(self) -> Sequence[str]:
        return _SCORE

    def _repr_html_(self) -> str:
        return _html.records(_SCORE, self.worst, self._html_title())


@dataclass(frozen=True, repr=False, kw_only=True)
class RunReport(_Table):
    """One measured run: the job made of it, and its figures against the price (``restow.run/1``)."""

    id: str
    job: str
    """A job file; empty where none could be made."""
    assumed: list[str]
    memory_unscorable: str | None
    time_unscorable: str | None
    scores: list[Mapping[str, Any]]
    ranks: list[Mapping[str, Any]]

    def _about(self) -> str:
        return f" {self.id}"

    def _html_title(self) -> str:
        return f"{self.id} against its price"

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return self.scores

    def _columns(self) -> Sequence[str]:
        return _SCORE


@dataclass(frozen=True, repr=False, kw_only=True)
class Calibration(_Table):
    """Constants fitted to measured runs (``restow.calibration/1``)."""

    id: str
    rows: int
    time_before: Mapping[str, float]
    time: Mapping[str, float]
    left_out: list[Mapping[str, Any]]
    constants: list[Mapping[str, Any]]

    def _about(self) -> str:
        return f" {self.id}: {self.rows} runs"

    def _html_title(self) -> str:
        return f"{self.id}, fitted on {self.rows} runs"

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return self.constants

    def _columns(self) -> Sequence[str]:
        return _FITTED


def validation_of(answer: _restow.Answer, by: str) -> ValidationReport:
    document = json.loads(answer.json)
    kept = ("rows", "calibration", "left_out", "unscorable", "memory", "time", "oom", "fits",
            "ranking", "worst", "scores")
    return ValidationReport(
        _json=answer.json,
        _text=answer.text,
        groups=document["by_" + by],
        **{name: document[name] for name in kept},
    )


def run_of(answer: _restow.Answer) -> RunReport:
    document = json.loads(answer.json)
    return RunReport(
        _json=answer.json,
        _text=answer.text,
        memory_unscorable=document.get("memory_unscorable"),
        time_unscorable=document.get("time_unscorable"),
        **{name: document[name] for name in ("id", "job", "assumed", "scores", "ranks")},
    )


def calibration_of(answer: _restow.Answer) -> Calibration:
    document = json.loads(answer.json)
    kept = ("id", "rows", "time_before", "time", "left_out", "constants")
    return Calibration(
        _json=answer.json, _text=answer.text, **{name: document[name] for name in kept}
    )
