"""Operators as they run inside checkpoints: who watches them, and which must not run twice."""

from __future__ import annotations

import contextlib
import enum
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mindspore.utils import MsDispatchMode

from restow.mindspore import _targets
from restow.mindspore._providers import busy

__all__ = ["Actor", "Forced", "actors", "is_random", "through_actors", "watching"]

# Kernels of the CPU draw from a state of their own, which nobody can read or set.
_RANDOM = re.compile(
    r"Dropout\w*|\w*Rand\w*|\w*Bernoulli\w*|\w*Multinomial\w*|\w*Poisson\w*|\w*Exponential_?"
    r"|\w*(?:Normal|NormalFloatFloat|NormalTensorTensor|Uniform|UniformReal|UniformInt|UniformExt)"
    r"|StandardLaplace|Gamma|LogNormalReverse|\w*CandidateSampler|\w*Shuffle"
)


def is_random(name: str) -> bool:
    """Would the operator give other numbers when it runs again under the same random state?"""
    return _targets.on_host() and _RANDOM.fullmatch(name) is not None


class Forced(enum.Enum):
    """Must something run once only, whoever watches; and is its result to be kept then?"""

    NO = 0
    WITH_RESULT = 1
    WITHOUT_RESULT = 2  # a rerun gets empty tensors


class Actor(Protocol):
    """A forward under a checkpoint, or its rerun."""

    def operator(
        self, name: str, args: Any, kwargs: Any, call: Callable[[], Any], forced: Forced
    ) -> Any:
        """Runs `call`, or gives what it once gave."""


class _Actors(threading.local):
    def __init__(self) -> None:
        self.list: list[Actor] = []
        self.watched = False


_actors = _Actors()


def actors() -> list[Actor]:
    """Whose function this thread is running, outermost first."""
    return _actors.list


def through_actors(name: str, args: Any, kwargs: Any, call: Callable[[], Any], forced: Forced) -> Any:
    """Runs an operator, or a region that counts as one, past everyone who watches."""
    chain = list(_actors.list)

    def step(level: int) -> Any:
        if level < 0:
            return call()
        return chain[level].operator(name, args, kwargs, lambda: step(level - 1), forced)

    return step(len(chain) - 1)


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Shows the operators inside to the actors of this thread, each once."""
    if _actors.watched:
        yield
        return
    _actors.watched = True
    try:
        with _Watch():
            yield
    finally:
        _actors.watched = False


class _Watch(MsDispatchMode):  # type: ignore[misc]
    def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        named = kwargs or {}
        if busy() or not _actors.list:
            return func(*args, **named)
        return through_actors(func.name, args, named, lambda: func(*args, **named), Forced.NO)
