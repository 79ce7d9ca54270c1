"""Regions: what is saved while one is open is moved, or guarded."""

import types
import warnings
from collections.abc import Callable
from typing import Any, Literal, Optional, Union

import torch

from restow import _enabled
from restow.errors import Error, InputError, Unsupported
from restow.torch import _owners, _steering
from restow.torch._load import native
from restow.torch._wcompile import never_compiled

Policy = Callable[[torch.Tensor], Any]
Size = Union[int, str]


def size(value: Size, name: str) -> int:
    """Bytes of an integer or a text with a unit. Errors: InputError naming the argument."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(f"{name}={value!r} is neither bytes nor a text with a unit like '20GiB'")
    try:
        return int(native.parse_bytes(value)) if isinstance(value, str) else value
    except Error as error:
        raise InputError(f"{name}: {error}") from None


class HostPool:
    """Host memory of one's own for copies, at most `max_bytes`; pass it as ``cpu_pool=``.

    Without one, the process's own pool serves.
    """

    def __init__(self, max_bytes: Size) -> None:
        self.max_bytes = size(max_bytes, "max_bytes")
        if self.max_bytes <= 0:
            raise InputError(f"max_bytes={max_bytes!r}: a pool needs at least one byte")
        self._native = native.Pool(self.max_bytes)

    def __repr__(self) -> str:
        return f"HostPool(max_bytes={self.max_bytes})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "HostPool":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return HostPool, (self.max_bytes,)


def _place(tier: Optional[str]) -> bool:
    if tier not in (None, "host", "file"):
        raise InputError(f"tier={tier!r}; allowed are 'host' and 'file'")
    return tier == "file"


def _new_region(
    name: str,
    swap: bool,
    policy_fn: Optional[Policy],
    group_swap: bool,
    cpu_pool: Optional[HostPool],
    min_bytes: Optional[Size],
    tier: Optional[str],
) -> native.Region:
    if cpu_pool is not None and not isinstance(cpu_pool, HostPool):
        raise TypeError(f"cpu_pool must be a HostPool, not {type(cpu_pool).__name__}")
    if policy_fn is not None and not callable(policy_fn):
        raise TypeError(f"policy_fn must be callable, not {type(policy_fn).__name__}")
    group = _steering.current()
    swap = swap and not group.alone
    return native.new_region(
        name,
        group.core,
        swap,
        policy_fn if swap else None,
        -1 if min_bytes is None else size(min_bytes, "min_bytes"),
        _place(tier),
        group_swap,
        group.manual,
        None if cpu_pool is None else cpu_pool._native,
    )


def name_of(fn: Any) -> str:
    """How a function or module is called in statistics when nobody named it."""
    return getattr(fn, "__qualname__", None) or type(fn).__name__


def _run(region: native.Region, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    region.enter()
    try:
        return fn(*args, **kwargs)
    finally:
        region.leave()


def run_swapped(
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    policy_fn: Optional[Policy] = None,
    group_swap: bool = False,
    cpu_pool: Optional[HostPool] = None,
    min_bytes: Optional[Size] = None,
    tier: Optional[str] = None,
    name: Optional[str] = None,
    owner: Any = None,
) -> Any:
    """Calls ``fn`` with what autograd saves meanwhile swapped out.

    ``owner`` is the module, or function, whose parameters and buffers never move; ``fn`` itself
    when it is None. Errors: Unsupported where swap can have no effect.
    """
    if not _enabled.is_enabled() or not torch.is_grad_enabled():
        return fn(*args, **kwargs)
    whose = fn if owner is None else owner
    _owners.check_can_move(whose, args, kwargs)
    _owners.remember(whose)
    _owners.remember_arguments(args, kwargs)
    region = _new_region(
        name or name_of(fn), True, policy_fn, group_swap, cpu_pool, min_bytes, tier
    )
    return _run(region, fn, args, kwargs)


def run_kept(
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    name: Optional[str] = None,
    owner: Any = None,
) -> Any:
    """Calls ``fn`` with what autograd saves meanwhile guarded and counted, and left in place."""
    if not _enabled.is_enabled() or not torch.is_grad_enabled():
        return fn(*args, **kwargs)
    _owners.remember(fn if owner is None else owner)
    _owners.remember_arguments(args, kwargs)
    region = _new_region(name or name_of(fn), False, None, False, None, None, None)
    return _run(region, fn, args, kwargs)


def swap(
    fn: Callable[..., Any],
    *args: Any,
    policy_fn: Optional[Policy] = None,
    group_swap: bool = False,
    cpu_pool: Optional[HostPool] = None,
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
        policy_fn: Optional[Policy] = None,
        min_bytes: Optional[Size] = None,
        tier: Literal["host", "file", None] = None,
        group_swap: bool = False,
        name: Optional[str] = None,
        cpu_pool: Optional[HostPool] = None,
    ) -> None:
        if mode == "recompute":
            raise Unsupported(
                "region(mode='recompute') cannot work: recompute needs the function to run again; "
                "use restow.torch.checkpoint(fn, *args) or checkpoint_wrapper(module)"
            )
        if mode not in ("swap", "keep"):
            raise InputError(f"mode={mode!r}; allowed are 'swap' and 'keep'")
        _place(tier)
        self.mode = mode
        self.policy_fn = policy_fn
        self.min_bytes = min_bytes
        self.tier = tier
        self.group_swap = group_swap
        self.name = name or f"region({mode})"
        self.cpu_pool = cpu_pool
        self._open: list[Optional[native.Region]] = []

    def __enter__(self) -> "region":
        if not _enabled.is_enabled() or not torch.is_grad_enabled():
            self._open.append(None)
            return self
        if self.mode == "swap":
            _owners.check_can_move(None, (), {})
        one = _new_region(
            self.name,
            self.mode == "swap",
            self.policy_fn,
            self.group_swap,
            self.cpu_pool,
            self.min_bytes,
            self.tier,
        )
        one.enter()
        self._open.append(one)
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        one = self._open.pop()
        if one is not None:
            one.leave()


class AsyncSaveOnCpu(region):
    """The context manager under `SwapWrapper`."""

    def __init__(
        self,
        policy_fn: Optional[Policy] = None,
        group_swap: bool = False,
        cpu_pool: Optional[HostPool] = None,
    ) -> None:
        super().__init__(
            "swap",
            policy_fn=policy_fn,
            group_swap=group_swap,
            cpu_pool=cpu_pool,
            name="AsyncSaveOnCpu",
        )


class group:
    """Names the group of what is saved inside; outside any region, marked tensors move in it.

    Not inside a checkpoint or other saved-tensor hooks: what is saved there is theirs.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise InputError(f"group name {name!r} is not a text with letters in it")
        self.name = name
        self._before: list[tuple[_steering.Active, Optional[native.Region]]] = []

    def __enter__(self) -> "group":
        before = _steering.set_current(self.name)
        one = None
        usable = _enabled.is_enabled() and torch.is_grad_enabled()
        # Inside a checkpoint, it would keep what is to be recomputed.
        if usable and native.current_label() is None and not native.saves_are_taken():
            one = _new_region(self.name, False, None, False, None, None, None)
            one.enter()
        self._before.append((before, one))
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        before, one = self._before.pop()
        _steering.restore(before)
        if one is not None:
            one.leave()


def base_check_fn(x: Any) -> bool:
    """May `x` be swapped at all: a tensor with bytes, and neither a parameter nor part of one."""
    return isinstance(x, torch.Tensor) and native.is_movable(x)


_warned: set[str] = set()


def warn_once(tag: str, message: str) -> None:
    if tag not in _warned:
        _warned.add(tag)
        warnings.warn(message, stacklevel=3)


for _entry in (
    run_swapped,
    run_kept,
    region.__enter__,
    region.__exit__,
    group.__enter__,
    group.__exit__,
):
    never_compiled(_entry)
