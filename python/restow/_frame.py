"""Candidates as a pandas table. pandas is imported on first use only; nothing else needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _restow

if TYPE_CHECKING:
    import pandas

    from ._reports import Candidate


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "to_dataframe() needs pandas, which is not installed: pip install pandas"
        ) from error
    return pandas


def dataframe(rows: Sequence[tuple[str, Candidate]], label: str | None) -> pandas.DataFrame:
    """One row per candidate, with a column ``label`` in front where that is not None."""
    named = [({} if label is None else {label: name}) | _fields(one) for name, one in rows]
    columns = ([] if label is None else [label]) + list(_COLUMNS)
    frame: pandas.DataFrame = _pandas().DataFrame(named, columns=columns)
    return frame


def records(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """One row per mapping."""
    frame: pandas.DataFrame = _pandas().DataFrame([dict(row) for row in rows], columns=list(columns))
    return frame


_COLUMNS = (
    "rank",
    "tp",
    "sp",
    "cp",
    "cp_kind",
    "pp",
    "vpp",
    "schedule",
    "ep",
    "etp",
    "dp",
    "zero",
    "zero_span",
    "micro_batch",
    "micro_batches",
    "order",
    "recompute",
    "fits",
    "step_s",
    "tokens_per_s_per_device",
    "mfu_pct",
    "peak_bytes",
    "peak_reserved_low_bytes",
    "peak_reserved_high_bytes",
    "capacity_bytes",
    "limit_bytes",
    "worst_rank",
    "worst_stage",
    "worst_phase",
    *(f"memory_{term}_bytes" for term in _restow.memory_terms),
    *(f"time_{term}_s" for term in _restow.time_terms),
    *(f"hidden_{term}_s" for term in _restow.time_terms),
)


def _fields(one: Candidate) -> dict[str, object]:
    layout = one.layout
    fields: dict[str, object] = {name: getattr(layout, name, None) for name in _COLUMNS[1:16]}
    fields |= {
        "rank": one.rank,
        "zero_span": layout.zero_span or 0,
        "recompute": str(one.recompute),
        "fits": one.fits,
        "step_s": one.step_s,
        "tokens_per_s_per_device": one.tokens_per_s_per_device,
        "mfu_pct": one.mfu,
        "peak_bytes": one.peak_bytes,
        "peak_reserved_low_bytes": one.peak_reserved_bytes[0],
        "peak_reserved_high_bytes": one.peak_reserved_bytes[1],
        "capacity_bytes": one.capacity_bytes,
        "limit_bytes": one.limit_bytes,
        "worst_rank": one.worst.rank,
        "worst_stage": one.worst.stage,
        "worst_phase": one.worst.phase,
    }
    fields |= {f"memory_{term}_bytes": one.memory.get(term, 0) for term in _restow.memory_terms}
    fields |= {f"time_{term}_s": one.time.get(term, 0.0) for term in _restow.time_terms}
    return fields | {f"hidden_{term}_s": one.hidden.get(term, 0.0) for term in _restow.time_terms}
