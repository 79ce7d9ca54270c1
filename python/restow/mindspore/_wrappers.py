"""Wrappers: every call of a cell is a region in which activations are swapped or recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from mindspore import nn
from mindspore.graph.api import _run_in_jit

from restow.errors import Error
from restow.mindspore import _checkpoint, _overlap, _regions
from restow.mindspore._names import INNER, Transparent
from restow.mindspore._overlap import FuncCell
from restow.mindspore._saver import Policy
from restow.mindspore._settings import Size

__all__ = [
    "ActivationWrapper",
    "CheckpointWrapper",
    "ExcludeWrapper",
    "FuncCell",
    "SwapWrapper",
    "checkpoint_exclude_wrapper",
    "checkpoint_wrapper",
    "ckpt_wrapper",
    "swap_wrapper",
    "unwrap",
]

Target = Union[nn.Cell, Callable[..., Any]]

_HOOKS = ("_forward_pre_hook", "_forward_hook", "_backward_pre_hook", "_backward_hook")


class ActivationWrapper(Transparent):
    """Base of all wrappers; a subclass gives it a ``construct``.

    A wrapper shows the inner cell's names, parameters, children and state dict as its own; it is
    reachable as ``unwrap_cell``. Attributes that the subclass assigns or annotates in its body are
    the wrapper's; all others are written to the inner cell.

    ``module`` is a cell or, made a `FuncCell`, a callable; anything else is a TypeError.
    `restow.Overlap` is raised when one region would lie inside another.
    """

    _ckpt_wrapped_module: nn.Cell

    def __init__(self, module: Target) -> None:
        kind = type(self)
        if kind is ActivationWrapper or kind.construct is nn.Cell.construct:
            raise TypeError(
                f"{kind.__name__} cannot run a cell: make a subclass of ActivationWrapper that "
                "overrides construct(self, *args, **kwargs), or use swap_wrapper or "
                "checkpoint_wrapper"
            )
        if not callable(module):
            raise TypeError(
                f"{kind.__name__} takes a cell or a callable, not {type(module).__name__}"
            )
        _overlap.check(module, self._nests)
        super().__init__(module if isinstance(module, nn.Cell) else FuncCell(module))
        _overlap.enter(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._released:
            return self.__dict__[INNER](*args, **kwargs)
        _regions.refuse_graph_mode(type(self).__name__)
        self._attachment.check(self.__dict__[INNER])
        return super().__call__(*args, **kwargs)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if not self._released:
            _overlap.enter(self)

    def release(self) -> None:
        _overlap.leave(self)
        super().release()

    @property
    def _wrapped_module(self) -> Any:
        return self._ckpt_wrapped_module

    @property
    def unwrap_cell(self) -> Any:
        """The inner cell."""
        return self._ckpt_wrapped_module


def _owner(inner: Any) -> Any:
    """Whose parameters a region around `inner` may meet and must never move."""
    return inner._fn if type(inner) is FuncCell else inner


class SwapWrapper(ActivationWrapper):
    """Runs a cell with the activations that its backward needs swapped out.

    ``policy_fn``, ``group_swap``, ``cpu_pool``, ``min_bytes`` (bytes) and ``tier`` may be assigned
    at any time and are looked up at every call.
    """

    policy_fn: Any
    group_swap: bool
    cpu_pool: Any
    min_bytes: Any
    tier: Any

    def __init__(
        self,
        module: Target,
        policy_fn: Policy | None = None,
        group_swap: bool = False,
        cpu_pool: _regions.HostPool | None = None,
        *,
        min_bytes: Size | None = None,
        tier: str | None = None,
    ) -> None:
        super().__init__(module)
        self.policy_fn = policy_fn
        self.group_swap = group_swap
        self.cpu_pool = cpu_pool
        self.min_bytes = min_bytes
        self.tier = tier

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        if _run_in_jit():  # @jit.cond: True
            raise RuntimeError(
                "a SwapWrapper cannot be compiled: inside jit and graph mode MindSpore's compiler "
                "decides what is kept. Use cell.recompute() there, or run in PyNative mode"
            )
        return self._run(args, kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inner = self._ckpt_wrapped_module
        return _regions.run_swapped(
            inner,
            args,
            kwargs,
            policy_fn=self.policy_fn,
            group_swap=self.group_swap,
            cpu_pool=self.cpu_pool,
            min_bytes=self.min_bytes,
            tier=self.tier,
            name=self._site,
            owner=_owner(inner),
        )


class CheckpointWrapper(ActivationWrapper):
    """Runs a cell without keeping what its backward needs, and once more before its backward.

    The keywords are those of `checkpoint`. They may be assigned at any time and are looked up at
    every call.
    """

    policy_fn: Any
    swap_inputs: bool
    context_fn: Any
    preserve_rng_state: bool
    determinism_check: str
    early_stop: bool
    group_swap: bool
    cpu_pool: Any
    min_bytes: Any
    tier: Any

    def __init__(
        self,
        module: Target,
        *,
        policy_fn: Any = None,
        swap_inputs: bool = False,
        context_fn: _checkpoint.ContextFn | None = None,
        preserve_rng_state: bool = True,
        determinism_check: str = "default",
        early_stop: bool = True,
        group_swap: bool = False,
        cpu_pool: _regions.HostPool | None = None,
        min_bytes: Size | None = None,
        tier: str | None = None,
    ) -> None:
        super().__init__(module)
        self.policy_fn = policy_fn
        self.swap_inputs = swap_inputs
        self.context_fn = context_fn
        self.preserve_rng_state = preserve_rng_state
        self.determinism_check = determinism_check
        self.early_stop = early_stop
        self.group_swap = group_swap
        self.cpu_pool = cpu_pool
        self.min_bytes = min_bytes
        self.tier = tier

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        if _run_in_jit():  # @jit.cond: True
            raise RuntimeError(
                "a CheckpointWrapper cannot be compiled: inside jit and graph mode MindSpore's "
                "compiler decides what is kept. Use cell.recompute() there, or run in PyNative mode"
            )
        return self._run(args, kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inner = self._ckpt_wrapped_module
        return _checkpoint.run_checkpointed(
            inner,
            args,
            kwargs,
            policy_fn=self.policy_fn,
            swap_inputs=self.swap_inputs,
            context_fn=self.context_fn,
            preserve_rng_state=self.preserve_rng_state,
            determinism_check=self.determinism_check,
            early_stop=self.early_stop,
            group_swap=self.group_swap,
            cpu_pool=self.cpu_pool,
            name=self._site,
            owner=_owner(inner),
            min_bytes=self.min_bytes,
            tier=self.tier,
        )


class ExcludeWrapper(ActivationWrapper):
    """Runs a cell that a surrounding checkpoint must not run a second time.

    It may lie inside a wrapped cell: that is its use. Outside a checkpoint it does nothing.
    """

    _nests = True

    save_output: bool

    def __init__(self, module: Target, *, save_output: bool = True) -> None:
        if not isinstance(save_output, bool):
            raise ValueError(f"save_output is a bool, not {save_output!r}")
        super().__init__(module)
        self.save_output = save_output

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        if _run_in_jit():  # @jit.cond: True
            raise RuntimeError(
                "an ExcludeWrapper cannot be compiled: inside jit and graph mode MindSpore's "
                "compiler decides what is kept. Use cell.recompute() there, or run in PyNative mode"
            )
        return self._run(args, kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _checkpoint.run_excluded(
            self._ckpt_wrapped_module, args, kwargs, save_output=self.save_output
        )


def swap_wrapper(
    module: Target,
    policy_fn: Policy | None = None,
    group_swap: bool = False,
    cpu_pool: _regions.HostPool | None = None,
    *,
    min_bytes: Size | None = None,
    tier: str | None = None,
) -> SwapWrapper:
    """Wraps `module`, so that the activations of every call are swapped.

    ``policy_fn(tensor)`` answers ``MUST_SAVE`` or ``MUST_SWAP``; without it, every eligible tensor
    of at least ``min_bytes`` (bytes; 1 MiB) is swapped. Raises `restow.Overlap` when one region
    would lie inside another.
    """
    return SwapWrapper(module, policy_fn, group_swap, cpu_pool, min_bytes=min_bytes, tier=tier)


def checkpoint_wrapper(module: Target, **keywords: Any) -> CheckpointWrapper:
    """Wraps `module`, so that every call is recomputed; the keywords are those of `checkpoint`.

    Raises `restow.Overlap` when one region would lie inside another.
    """
    return CheckpointWrapper(module, **keywords)


ckpt_wrapper = checkpoint_wrapper


def checkpoint_exclude_wrapper(module: Target, *, save_output: bool = True) -> ExcludeWrapper:
    """Wraps `module`, so that a checkpoint around it does not run it a second time.

    ``save_output=False`` is for chains of such cells: the output of all but the last is not kept.
    """
    return ExcludeWrapper(module, save_output=save_output)


def unwrap(root: Any) -> Any:
    """Takes every wrapper at or below `root` out of the tree; returns what `root` stands for.

    Nothing is renamed. A wrapper that someone still holds becomes a plain pass-through. A wrapper
    with forward or backward hooks of its own would lose them: that is an Error, and nothing is
    changed.
    """
    if not isinstance(root, nn.Cell):
        raise TypeError(f"unwrap takes a cell, not {type(root).__name__}")
    wrappers: dict[ActivationWrapper, None] = {}
    links: list[tuple[Any, str, Any]] = []
    seen: set[Any] = set()
    inner = _through(root, wrappers)
    left = [inner]
    while left:
        cell = left.pop()
        if cell in seen:
            continue
        seen.add(cell)
        for name, child in cell._cells.items():
            if child is None:
                continue
            plain = _through(child, wrappers)
            if plain is not child:
                links.append((cell, name, plain))
            left.append(plain)
    for wrapper in wrappers:
        _refuse_hooks(wrapper)
    for parent, name, plain in links:
        put_child(parent, name, plain)
    for wrapper in wrappers:
        wrapper.release()
    return inner


def put_child(parent: Any, name: str, child: Any) -> None:
    """Puts `child` at a place that exists, without renaming parameters."""
    parent._cells[name] = child
    if isinstance(parent, nn.SequentialCell):
        # It runs a list of its own.
        parent.cell_list = list(parent._cells.values())


def _through(cell: Any, wrappers: dict[ActivationWrapper, None]) -> Any:
    """The cell inside all wrappers of `cell`, which are added to `wrappers`."""
    while isinstance(cell, ActivationWrapper):
        wrappers[cell] = None
        cell = cell._ckpt_wrapped_module
    return cell


def _refuse_hooks(wrapper: ActivationWrapper) -> None:
    if any(getattr(wrapper, hooks) for hooks in _HOOKS):
        inner = type(wrapper.__dict__[INNER]).__name__
        raise Error(
            f"cannot unwrap: the {type(wrapper).__name__} of a {inner} has hooks of its own, which "
            "would be lost; remove them, or register them on the inner cell (unwrap_cell)"
        )
