"""What a policy may answer, in every framework."""

import enum
from typing import Any

from restow.errors import Error

__all__ = ["CheckpointPolicy", "decide"]


class CheckpointPolicy(enum.Enum):
    """A decision about one saved tensor or operator; torch's own members are taken as aliases."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_SWAP = 4


_KEEP = 1
_SWAP = 2
_BY_NAME = {"MUST_SAVE": _KEEP, "MUST_SWAP": _SWAP, "MUST_CPU_OFFLOAD": _SWAP}


def decide(answer: Any) -> int:
    """The engine's number for a swap policy's answer.

    Errors: Error showing the answer, for anything but MUST_SAVE and MUST_SWAP.
    """
    if answer is CheckpointPolicy.MUST_SWAP:
        return _SWAP
    if answer is CheckpointPolicy.MUST_SAVE:
        return _KEEP
    if isinstance(answer, enum.Enum) and type(answer).__name__ == "CheckpointPolicy":
        decision = _BY_NAME.get(answer.name)
        if decision is not None:
            return decision
    raise Error(
        f"a swap policy answered {answer!r}; it must answer CheckpointPolicy.MUST_SAVE or "
        "CheckpointPolicy.MUST_SWAP"
    )
