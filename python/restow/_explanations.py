"""What `explain` answers, in every framework: a row for each saved tensor."""

from __future__ import annotations

__all__ = ["Explanations"]


class Explanations(list[tuple[str, int, str, str]]):
    """Rows ``(label, bytes, decision, reason)``; prints as a table."""

    def __str__(self) -> str:
        if not self:
            return "nothing was saved in a region since the last reset"
        rows = [("what", "bytes", "decision", "why")]
        rows += [(label, f"{count:,}", decision, why) for label, count, decision, why in self]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}"
            for row in rows
        )
