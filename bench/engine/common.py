"""What the engine's measurements share: checks before anything is timed, arguments, JSON out."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch


def require(condition: bool, what: str) -> None:
    """A benchmark of wrong answers is worth nothing."""
    if not condition:
        sys.exit(f"engine bench: {what}")


def same(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Bit for bit."""
    return len(first) == len(second) and all(
        torch.equal(a, b) for a, b in zip(first, second, strict=True)
    )


def arguments(define: Callable[[argparse.ArgumentParser], None]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    define(parser)
    parser.add_argument("--small", action="store_true", help="sizes for a test, not for figures")
    return parser.parse_args()


def answer(figures: Any) -> None:
    """The last line of standard output, for the driver."""
    print(json.dumps(figures), flush=True)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def costs(
    seconds: Callable[[str], float], names: Sequence[str], rounds: int
) -> tuple[float, dict[str, list[float]]]:
    """Median seconds of "none", and what each of `names` takes more than it, round by round.

    Contenders in turn, each less the same round's "none": what else the machine does comes and goes
    more slowly than that.
    """
    bases: list[float] = []
    more: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        bases.append(seconds("none"))
        for name, cost in more.items():
            cost.append(seconds(name) - bases[-1])
    return median(bases), more
