"""Candidates as HTML for notebooks. Every text is escaped: names come from users' files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._reports import Candidate, Difference

_HEADINGS = (
    "",
    "layout",
    "recompute",
    "step s",
    "tokens/s/device",
    "MFU %",
    "peak GiB",
    "at",
    "margin GiB",
)
_NAMES = {"id", "kind", "instrument", "name", "remark"}
"""Columns of text in tables of mappings."""
_WORDS = {0, 1, 2, 7}
"""Columns of text; the others are figures and stand to the right."""


def gib(count: int) -> str:
    return f"{count / 2**30:.2f}"


def _cell(tag: str, text: str, words: bool) -> str:
    side = "left" if words else "right"
    return f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>'


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: set[int]) -> str:
    head = "".join(_cell("th", text, index in words) for index, text in enumerate(headings))
    body = "".join(
        "<tr>" + "".join(_cell("td", text, index in words) for index, text in enumerate(row))
        + "</tr>\n"
        for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


def _row(label: str, candidate: Candidate) -> tuple[str, ...]:
    return (
        label,
        str(candidate.layout),
        str(candidate.recompute),
        f"{candidate.step_s:.4g}",
        f"{candidate.tokens_per_s_per_device:,.0f}",
        f"{candidate.mfu:.1f}",
        gib(candidate.peak_bytes),
        f"stage {candidate.worst.stage}, {candidate.worst.phase}",
        gib(candidate.capacity_bytes - candidate.peak_bytes),
    )


def records(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """A row for each mapping; figures in five digits."""
    def text(value: object) -> str:
        if value is None:
            return ""
        return f"{value:.5g}" if isinstance(value, float) else str(value)

    words = {index for index, name in enumerate(columns) if name in _NAMES}
    cells = [[text(row.get(name)) for name in columns] for row in rows]
    return f"<p>{escape(title)}</p>\n" + _table(columns, cells, words)


def candidates(rows: Sequence[tuple[str, Candidate]], title: str = "") -> str:
    """A row for each candidate under its label. The margin is what the peak leaves of the device."""
    heading = f"<p>{escape(title)}</p>\n" if title else ""
    if not rows:
        return heading
    return heading + _table(_HEADINGS, (_row(*row) for row in rows), _WORDS)


def differences(a: Candidate, b: Candidate, difference: Difference) -> str:
    """Terms that differ between two candidates."""
    rows = [
        (f"{term} GiB", gib(a.memory.get(term, 0)), gib(b.memory.get(term, 0)), gib(less))
        for term, less in difference.memory.items()
    ]
    rows += [
        (f"{term} s", f"{a.time.get(term, 0):.4g}", f"{b.time.get(term, 0):.4g}", f"{less:+.4g}")
        for term, less in difference.time.items()
    ]
    return _table(("", "a", "b", "b - a"), rows, {0})


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"
