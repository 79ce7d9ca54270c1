"""Why each saved tensor was or was not moved, in the last invocation of every region."""

from __future__ import annotations

from restow._explanations import Explanations
from restow._plan_report import SiteBytes

__all__ = ["Rows", "explain", "forget", "site_bytes"]

_MOST_SITES = 4096


_last: dict[str, list[tuple[str, int, str, str]]] = {}
_invocations: dict[str, int] = {}


class Rows:
    """What one invocation has to tell; `close` makes it the last one of its site."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._rows: list[tuple[str, int, str, str]] = []

    def add(self, label: str, nbytes: int, decision: str, reason: str) -> None:
        self._rows.append((label, nbytes, decision, reason))

    def close(self) -> None:
        while self._site not in _last and len(_last) >= _MOST_SITES:
            del _last[next(iter(_last))]
        _last[self._site] = self._rows
        _invocations[self._site] = _invocations.get(self._site, 0) + 1


def explain() -> Explanations:
    """Why each saved tensor was or was not moved, in the last invocation of every region."""
    return Explanations(row for rows in _last.values() for row in rows)


def forget() -> None:
    _last.clear()
    _invocations.clear()


def site_bytes() -> dict[str, SiteBytes]:
    """By site, of its last finished invocation."""
    answer = {}
    for site, rows in _last.items():
        # One storage moves once; only the first of its saves says so with these words.
        kept = sum(row[1] for row in rows if row[2] == "keep")
        swapped = sum(row[1] for row in rows if row[2] == "swap" and "before" not in row[3])
        answer[site] = SiteBytes(kept, swapped, _invocations[site])
    return answer
