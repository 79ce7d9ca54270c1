"""The switch that turns every region and wrapper into a plain call."""

import contextlib
import os
from collections.abc import Iterator

_off = 0


def is_enabled() -> bool:
    """False inside `disabled`, or with RESTOW_ENABLED=0 in the environment."""
    return _off == 0 and _enabled_by_environment


_enabled_by_environment = os.environ.get("RESTOW_ENABLED", "1") != "0"


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Inside, every wrapper is a plain call, in all threads: for finding out who is to blame."""
    global _off
    _off += 1
    try:
        yield
    finally:
        _off -= 1
