"""Regions: what is saved while one is open is moved, or guarded."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable
from typing import Any, Literal

import mindspore as ms

from restow import _enabled
from restow.errors import InputError, Unsupported
from restow.mindspore import _manager, _owners, _targets
from restow.mindspore._frames import replaying
from restow.mindspore._providers import Provider, stack
from restow.mindspore._saver import Policy, Saver
from restow.mindspore._settings import Size, size
from restow.mindspore._tensors import records

__all__ = [
    "AsyncSaveOnCpu",
    "HostPool",
    "check_pool",
    "current_group",
    "current_saver",
    "group",
    "name_of",
    "new_saver",
    "region",
    "run_kept",
    "run_swapped",
    "swap",
]


class HostPool:
    """Host memory of one's own for copies, at most `max_bytes`; pass it as ``cpu_pool=``.

    On CPU there are no host copies: a saved tensor goes to its file straight from its own memory,
    so a pool is taken and stays empty.
    """

    def __init__(self, max_bytes: Size) -> None:
        self.max_bytes = size(max_bytes, "max_bytes")
        if self.max_bytes <= 0:
            raise InputError(f"max_bytes={max_bytes!r}: a pool needs at least one byte")

    def __repr__(self) -> str:
        return f"HostPool(max_bytes={self.max_bytes})"


def check_pool(pool: Any) -> None:
    if pool is not None and not isinstance(pool, HostPool):
        raise TypeError(f"cpu_pool must be a HostPool, not {type(pool).__name__}")


def _check_place(tier: str | None) -> None:
    if tier not in (None, "host", "file"):
        raise InputError(f"tier={tier!r}; allowed are 'host' and 'file'")
    if tier == "file" and not _targets.on_host():
        raise Unsupported(
            f"tier='file' works on CPU only; what is swapped on {_targets.target()} goes to host "
            "memory: leave `tier` out"
        )


class _Group(threading.local):
    name = ""


_group = _Group()


def refuse_graph_mode(what: str) -> None:
    """Errors: Unsupported where the framework compiles and saved-tensor hooks see nothing."""
    if ms.get_context("mode") == ms.GRAPH_MODE:
        raise Unsupported(
            f"{what} works in PyNative mode only: in graph mode MindSpore's compiler decides what is "
            "kept. Use cell.recompute() there, or ms.set_context(mode=ms.PYNATIVE_MODE)"
        )


def active() -> bool:
    """Would anything be saved by a region that opens now?"""
    return _enabled.is_enabled() and records()


def new_saver(
    site: str,
    *,
    swap: bool,
    parameters: set[int],
    policy_fn: Policy | None = None,
    group_swap: bool = False,
    cpu_pool: HostPool | None = None,
    min_bytes: Size | None = None,
    tier: str | None = None,
    owner: Any = None,
) -> Saver:
    """A provider, not yet entered."""
    check_pool(cpu_pool)
    _check_place(tier)
    if policy_fn is not None and not callable(policy_fn):
        raise TypeError(f"policy_fn must be callable, not {type(policy_fn).__name__}")
    chained = _manager.link_of(owner) if owner is not None else None
    name = _group.name or (chained.group if chained is not None else "")
    last = chained is not None and chained.is_last
    saver = Saver(
        site,
        swap=swap and not last,
        parameters=parameters,
        policy_fn=policy_fn,
        group_swap=group_swap,
        min_bytes=None if min_bytes is None else size(min_bytes, "min_bytes"),
        group=name,
    )
    saver.last = last
    saver.link = chained
    return saver


def name_of(fn: Any) -> str:
    """How a function or cell is called in statistics when nobody named it."""
    return getattr(fn, "__qualname__", None) or type(fn).__name__


@contextlib.contextmanager
def opened(provider: Provider) -> Any:
    provider.enter()
    try:
        yield provider
    finally:
        provider.leave()


def run_swapped(
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    policy_fn: Policy | None = None,
    group_swap: bool = False,
    cpu_pool: HostPool | None = None,
    min_bytes: Size | None = None,
    tier: str | None = None,
    name: str | None = None,
    owner: Any = None,
) -> Any:
    """Calls ``fn`` with what autograd saves meanwhile swapped out.

    ``owner`` is the cell, or function, whose parameters and buffers never move; ``fn`` itself when
    it is None. Errors: Unsupported where swap can have no effect.
    """
    refuse_graph_mode("swap")
    if not active():
        return fn(*args, **kwargs)
    again = replaying()
    if again is not None:
        with opened(again.mute()):
            return fn(*args, **kwargs)
    _owners.check_can_move()
    whose = fn if owner is None else owner
    saver = new_saver(
        name or name_of(fn),
        swap=True,
        parameters=_owners.addresses(whose, args, kwargs),
        policy_fn=policy_fn,
        group_swap=group_swap,
        cpu_pool=cpu_pool,
        min_bytes=min_bytes,
        tier=tier,
        owner=whose,
    )
    with opened(saver):
        return fn(*args, **kwargs)


def run_kept(
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    name: str | None = None,
    owner: Any = None,
) -> Any:
    """Calls ``fn`` with what autograd saves meanwhile guarded and counted, and left in place."""
    refuse_graph_mode("a region")
    if not active():
        return fn(*args, **kwargs)
    again = replaying()
    if again is not None:
        with opened(again.mute()):
            return fn(*args, **kwargs)
    parameters = _owners.addresses(fn if owner is None else owner, args, kwargs)
    with opened(new_saver(name or name_of(fn), swap=False, parameters=parameters)):
        return fn(*args, **kwargs)


def swap(
    fn: Callable[..., Any],
    *args: Any,
    policy_fn: Policy | None = None,
    group_swap: bool = False,
    cpu_pool: HostPool | None = None,
    **kwargs: Any,
) -> Any:
    """Runs one call with its saved activations swapped."""
    return run_swapped(
        fn, args, kwargs, policy_fn=policy_fn, group_swap=group_swap, cpu_pool=cpu_pool
    )


class region:
    """A context manager: every tensor that autograd saves inside it is handled as ``mode`` says.

    ``"swap"`` moves by policy and size, ``"keep"`` only guards against changes in place and counts.
    ``"recompute"`` is refused: it needs a callable, see `checkpoint`. Backward may run outside.
    """

    def __init__(
        self,
        mode: Literal["swap", "recompute", "keep"] = "swap",
        policy_fn: Policy | None = None,
        min_bytes: Size | None = None,
        tier: Literal["host", "file", None] = None,
        group_swap: bool = False,
        name: str | None = None,
        cpu_pool: HostPool | None = None,
    ) -> None:
        if mode == "recompute":
            raise Unsupported(
                "region(mode='recompute') cannot work: recompute needs the function to run again; "
                "use restow.mindspore.checkpoint(fn, *args) or checkpoint_wrapper(cell)"
            )
        if mode not in ("swap", "keep"):
            raise InputError(f"mode={mode!r}; allowed are 'swap' and 'keep'")
        _check_place(tier)
        check_pool(cpu_pool)
        self.mode = mode
        self.policy_fn = policy_fn
        self.min_bytes = min_bytes
        self.tier = tier
        self.group_swap = group_swap
        self.name = name or f"region({mode})"
        self.cpu_pool = cpu_pool
        self._open: list[Provider | None] = []

    def __enter__(self) -> region:
        refuse_graph_mode("a region")
        self._open.append(self._enter())
        return self

    def _enter(self) -> Provider | None:
        if not active():
            return None
        again = replaying()
        if again is None and self.mode == "swap":
            _owners.check_can_move()
        one: Provider = (
            again.mute()
            if again is not None
            else new_saver(
                self.name,
                swap=self.mode == "swap",
                # No module says whose weights these may be: those that any region has met.
                parameters=_owners.known(),
                policy_fn=self.policy_fn,
                group_swap=self.group_swap,
                min_bytes=self.min_bytes,
                tier=self.tier,
            )
        )
        one.enter()
        return one

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        one = self._open.pop()
        if one is not None:
            one.leave()


class AsyncSaveOnCpu(region):
    """The context manager under `SwapWrapper`."""

    def __init__(
        self,
        policy_fn: Policy | None = None,
        group_swap: bool = False,
        cpu_pool: HostPool | None = None,
    ) -> None:
        super().__init__(
            "swap",
            policy_fn=policy_fn,
            group_swap=group_swap,
            cpu_pool=cpu_pool,
            name="AsyncSaveOnCpu",
        )


def current_saver() -> Saver | None:
    """The innermost region of this thread."""
    return next((one for one in reversed(stack()) if isinstance(one, Saver)), None)


def current_group() -> str:
    """The group of what would be saved now; "" outside any."""
    saver = current_saver()
    return _group.name or (saver.group if saver is not None else "")


class group:
    """Names the group of what is saved inside; outside any region, marked tensors move in it."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise InputError(f"group name {name!r} is not a text with letters in it")
        self.name = name
        self._before: list[tuple[str, Provider | None]] = []

    def __enter__(self) -> group:
        before, one = _group.name, None
        if active() and current_saver() is None and replaying() is None:
            # What is marked in it will move.
            _group.name = self.name
            one = new_saver(self.name, swap=False, parameters=_owners.known())
            try:
                one.enter()
            except BaseException:
                _group.name = before
                raise
        _group.name = self.name
        self._before.append((before, one))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        before, one = self._before.pop()
        _group.name = before
        if one is not None:
            one.leave()
