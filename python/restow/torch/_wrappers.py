"""Wrappers: every call of a module is a region in which activations are swapped or recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import nn

from restow.errors import Error
from restow.torch import _checkpoint, _overlap, _regions
from restow.torch._names import INNER, Transparent
from restow.torch._overlap import FuncModule
from restow.torch._wcompile import never_compiled

__all__ = [
    "ActivationWrapper",
    "CheckpointWrapper",
    "ExcludeWrapper",
    "FuncModule",
    "SwapWrapper",
    "checkpoint_exclude_wrapper",
    "checkpoint_wrapper",
    "ckpt_wrapper",
    "swap_wrapper",
    "unwrap",
]

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class ActivationWrapper(Transparent):
    """Base of all wrappers; a subclass gives it a ``forward``.

    A wrapper shows the inner module's names, parameters, children and state dict as its own; it is
    reachable as ``unwrap_module``. Attributes that the subclass assigns or annotates in its body
    are the wrapper's; all others are written to the inner module.

    ``module`` is a module or, made a `FuncModule`, a callable; anything else is a TypeError.
    `restow.Overlap` is raised when one region would lie inside another.
    """

    # True for wrappers that may lie inside a region.
    _nests: ClassVar[bool] = False

    _ckpt_wrapped_module: nn.Module

    def __init__(self, module: nn.Module | Callable[..., Any]) -> None:
        kind = type(self)
        if kind is ActivationWrapper or kind.forward is nn.Module.forward:
            raise TypeError(
                f"{kind.__name__} cannot run a module: make a subclass of ActivationWrapper that "
                "overrides forward(self, *args, **kwargs), or use swap_wrapper or "
                "checkpoint_wrapper"
            )
        if not callable(module):
            raise TypeError(
                f"{kind.__name__} takes a module or a callable, not {type(module).__name__}"
            )
        _overlap.check(module, self._nests)
        super().__init__(module if isinstance(module, nn.Module) else FuncModule(module))
        _overlap.enter(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not self._released:
            _overlap.enter(self)

    def release(self) -> None:
        _overlap.leave(self)
        super().release()

    @property
    def _wrapped_module(self) -> nn.Module:
        return self._ckpt_wrapped_module

    @property
    def unwrap_module(self) -> nn.Module:
        """The inner module."""
        return self._ckpt_wrapped_module


def _owner(inner: nn.Module) -> Any:
    """Whose parameters a region around `inner` may meet and must never move."""
    return inner._fn if type(inner) is FuncModule else inner


class SwapWrapper(ActivationWrapper):
    """Runs a module with the activations that its backward needs swapped out.

    ``policy_fn``, ``group_swap``, ``cpu_pool``, ``min_bytes`` (bytes) and ``tier`` may be assigned
    at any time and are looked up at every call.
    """

    policy_fn: _regions.Policy | None
    group_swap: bool
    cpu_pool: _regions.HostPool | None
    min_bytes: _regions.Size | None
    tier: str | None

    def __init__(
        self,
        module: nn.Module | Callable[..., Any],
        policy_fn: _regions.Policy | None = None,
        group_swap: bool = False,
        cpu_pool: _regions.HostPool | None = None,
        *,
        min_bytes: _regions.Size | None = None,
        tier: str | None = None,
    ) -> None:
        super().__init__(module)
        self.policy_fn = policy_fn
        self.group_swap = group_swap
        self.cpu_pool = cpu_pool
        self.min_bytes = min_bytes
        self.tier = tier

    def forward(self, *args: Any, **kwargs: Any) -> Any:
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
    """Runs a module without keeping what its backward needs, and once more before its backward.

    The keywords are those of `checkpoint`. They may be assigned at any time and are looked up at
    every call.
    """

    policy_fn: Any
    swap_inputs: bool
    context_fn: _checkpoint.ContextFn | None
    preserve_rng_state: bool
    determinism_check: str
    early_stop: bool
    group_swap: bool
    cpu_pool: _regions.HostPool | None
    min_bytes: _regions.Size | None
    tier: str | None

    def __init__(
        self,
        module: nn.Module | Callable[..., Any],
        *,
        policy_fn: Any = None,
        swap_inputs: bool = False,
        context_fn: _checkpoint.ContextFn | None = None,
        preserve_rng_state: bool = True,
        determinism_check: str = "default",
        early_stop: bool = True,
        group_swap: bool = False,
        cpu_pool: _regions.HostPool | None = None,
        min_bytes: _regions.Size | None = None,
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

    def forward(self, *args: Any, **kwargs: Any) -> Any:
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
    """Runs a module that a surrounding checkpoint must not run a second time.

    It may lie inside a wrapped module: that is its use. Outside a checkpoint it does nothing.
    """

    _nests = True

    save_output: bool

    def __init__(
        self, module: nn.Module | Callable[..., Any], *, save_output: bool = True
    ) -> None:
        if not isinstance(save_output, bool):
            raise ValueError(f"save_output is a bool, not {save_output!r}")
        super().__init__(module)
        self.save_output = save_output

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _checkpoint.run_excluded(
            self._ckpt_wrapped_module, args, kwargs, save_output=self.save_output
        )


for _kind in (SwapWrapper, CheckpointWrapper, ExcludeWrapper):
    never_compiled(_kind.forward)


def swap_wrapper(
    module: nn.Module | Callable[..., Any],
    policy_fn: Any = None,
    group_swap: bool = False,
    cpu_pool: _regions.HostPool | None = None,
    *,
    min_bytes: _regions.Size | None = None,
    tier: str | None = None,
) -> SwapWrapper:
    """Wraps `module`, so that the activations of every call are swapped.

    ``policy_fn(tensor)`` answers ``MUST_SAVE`` or ``MUST_SWAP``; without it, every eligible tensor
    of at least ``min_bytes`` (bytes; 1 MiB) is swapped. Raises `restow.Overlap` when one region
    would lie inside another.
    """
    return SwapWrapper(module, policy_fn, group_swap, cpu_pool, min_bytes=min_bytes, tier=tier)


def checkpoint_wrapper(
    module: nn.Module | Callable[..., Any], **keywords: Any
) -> CheckpointWrapper:
    """Wraps `module`, so that every call is recomputed; the keywords are those of `checkpoint`.

    Raises `restow.Overlap` when one region would lie inside another.
    """
    return CheckpointWrapper(module, **keywords)


ckpt_wrapper = checkpoint_wrapper


def checkpoint_exclude_wrapper(
    module: nn.Module | Callable[..., Any], *, save_output: bool = True
) -> ExcludeWrapper:
    """Wraps `module`, so that a checkpoint around it does not run it a second time.

    ``save_output=False`` is for chains of such modules: the output of all but the last is not kept.
    """
    return ExcludeWrapper(module, save_output=save_output)


def unwrap(root: nn.Module) -> nn.Module:
    """Takes every wrapper at or below `root` out of the tree; returns what `root` stands for.

    Nothing is renamed. A wrapper that someone still holds becomes a plain pass-through. A wrapper
    with forward or backward hooks of its own, as `fully_shard` adds them, would lose them: that is
    an Error, and nothing is changed.
    """
    if not isinstance(root, nn.Module):
        raise TypeError(f"unwrap takes a module, not {type(root).__name__}")
    wrappers: dict[ActivationWrapper, None] = {}
    links: list[tuple[nn.Module, str, nn.Module]] = []
    seen: set[nn.Module] = set()
    inner = _through(root, wrappers)
    left = [inner]
    while left:
        module = left.pop()
        if module in seen:
            continue
        seen.add(module)
        for name, child in module._modules.items():
            if child is None:
                continue
            plain = _through(child, wrappers)
            if plain is not child:
                links.append((module, name, plain))
            left.append(plain)
    for wrapper in wrappers:
        _refuse_hooks(wrapper)
    for parent, name, plain in links:
        parent._modules[name] = plain
    for wrapper in wrappers:
        wrapper.release()
    return inner


def _through(module: nn.Module, wrappers: dict[ActivationWrapper, None]) -> nn.Module:
    """The module inside all wrappers of `module`, which are added to `wrappers`."""
    while isinstance(module, ActivationWrapper):
        wrappers[module] = None
        module = module._ckpt_wrapped_module
    return module


def _refuse_hooks(wrapper: ActivationWrapper) -> None:
    if any(getattr(wrapper, hooks) for hooks in _HOOKS):
        inner = type(wrapper.__dict__[INNER]).__name__
        raise Error(
            f"cannot unwrap: the {type(wrapper).__name__} of a {inner} has hooks of its own "
            "(fully_shard and parallelize_module add some), which would be lost; remove them, or "
            "apply them to the inner module (unwrap_module)"
        )
