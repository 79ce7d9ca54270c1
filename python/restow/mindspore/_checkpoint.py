"""Recompute: run a function again in backward instead of keeping what it saves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Union

from restow._policy import CheckpointPolicy
from restow.errors import Error, InputError, Unsupported
from restow.mindspore import _owners
from restow.mindspore._frames import Frame, Replay, replaying
from restow.mindspore._operators import Forced, actors, through_actors, watching
from restow.mindspore._providers import Provider, looking
from restow.mindspore._regions import (
    HostPool,
    active,
    check_pool,
    name_of,
    new_saver,
    refuse_graph_mode,
)
from restow.mindspore._settings import Size
from restow.mindspore._tensors import quietly

__all__ = [
    "ContextFn",
    "RecomputeState",
    "checkpoint",
    "get_recompute_state",
    "is_recomputing",
    "run_checkpointed",
    "run_excluded",
]

ContextFn = Callable[
    [], tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]
]

_CHECKS = ("none", "default", "values")


def _check_options(determinism_check: str, early_stop: Any, policy_fn: Any) -> None:
    if determinism_check not in _CHECKS:
        allowed = ", ".join(repr(name) for name in _CHECKS)
        raise InputError(f"determinism_check={determinism_check!r}; allowed are {allowed}")
    if not isinstance(early_stop, bool):
        raise InputError(f"early_stop={early_stop!r} is neither True nor False")
    if policy_fn is not None and not callable(policy_fn):
        raise TypeError(f"policy_fn must be callable, not {type(policy_fn).__name__}")


_KEEPS = {
    "MUST_SAVE": True,
    "PREFER_SAVE": True,
    "MUST_RECOMPUTE": False,
    "PREFER_RECOMPUTE": False,
}


class _PolicyContext:
    """What a policy is told of the call it decides for. A rerun asks no policy."""

    is_recompute = False


def _must_swap(tensor: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SWAP


class _Decisions:
    """What a policy says of each operator of one call, and who moves what it swaps."""

    def __init__(self, policy_fn: Callable[..., Any], new_mover: Callable[[], Provider]) -> None:
        self._policy = policy_fn
        self._new_mover = new_mover
        self._mover: Provider | None = None
        self._context = _PolicyContext()

    def __call__(self, name: str, args: Any, kwargs: Any) -> Union[bool, Provider]:
        with looking(), quietly():
            answer = self._policy(self._context, name, *args, **kwargs)
        if answer is CheckpointPolicy.MUST_SWAP:
            if self._mover is None:
                self._mover = self._new_mover()
            return self._mover
        if not isinstance(answer, CheckpointPolicy):
            raise Error(
                f"the policy answered {answer!r} for operator {name}; it must answer a "
                "CheckpointPolicy"
            )
        return _KEEPS[answer.name]

    def close(self) -> None:
        if self._mover is not None:
            self._mover.leave()


def run_checkpointed(
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    policy_fn: Any = None,
    swap_inputs: bool = False,
    context_fn: ContextFn | None = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    early_stop: bool = True,
    group_swap: bool = False,
    cpu_pool: HostPool | None = None,
    name: str | None = None,
    owner: Any = None,
    min_bytes: Size | None = None,
    tier: str | None = None,
) -> Any:
    """Calls ``fn`` and keeps only its inputs; backward runs it again. See `checkpoint`."""
    _check_options(determinism_check, early_stop, policy_fn)
    check_pool(cpu_pool)
    refuse_graph_mode("checkpoint")
    if not active():
        return fn(*args, **kwargs)
    nothing = contextlib.nullcontext()
    forward, replay = (nothing, nothing) if context_fn is None else context_fn()
    site = name or name_of(fn)
    def moving(policy: Callable[[Any], CheckpointPolicy] | None) -> Provider:
        """What is given to it moves, past whoever watches: in a rerun as in the forward."""
        again = replaying()
        if again is not None:
            return again.mute()
        _owners.check_can_move()
        whose = fn if owner is None else owner
        return new_saver(
            site,
            swap=True,
            parameters=_owners.addresses(whose, args, kwargs),
            policy_fn=policy,
            group_swap=group_swap,
            min_bytes=min_bytes,
            tier=tier,
            owner=whose,
        )

    decisions = None if policy_fn is None else _Decisions(policy_fn, lambda: moving(_must_swap))
    inputs = moving(None) if swap_inputs else None
    try:
        frame = Frame(
            site,
            fn,
            args,
            kwargs,
            inputs_through=inputs,
            preserve_random=preserve_rng_state,
            early_stop=early_stop,
            check=determinism_check,
            keeps=decisions,
            context=replay,
        )
    finally:
        if inputs is not None:
            inputs.leave()
    frame.enter()
    try:
        with watching(), forward:
            return fn(*args, **kwargs)
    finally:
        frame.leave()
        if decisions is not None:
            decisions.close()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    policy_fn: Any = None,
    swap_inputs: bool = False,
    context_fn: ContextFn | None = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    early_stop: bool = True,
    group_swap: bool = False,
    cpu_pool: HostPool | None = None,
    use_reentrant: bool = False,
    **kwargs: Any,
) -> Any:
    """Runs one call of ``function``, and runs it again in backward instead of keeping what it saves.

    ``policy_fn(ctx, name, *args, **kwargs)`` is asked for each operator by its name: MUST_SAVE and
    PREFER_SAVE keep its result and what it saves, MUST_SWAP moves its result, the others let it run
    again. ``swap_inputs``
    moves what the checkpoint itself keeps, its inputs. ``determinism_check``: "default" compares
    shapes, types and the number of what is saved, "values" also the bytes (slow: for debugging),
    "none" nothing.

    On CPU the results of random operators are kept and not made again, for MindSpore's kernels draw
    from a state that cannot be set back.
    """
    if use_reentrant:
        raise Unsupported("use_reentrant=True: checkpoints here are always non-reentrant")
    return run_checkpointed(
        function,
        args,
        kwargs,
        policy_fn=policy_fn,
        swap_inputs=swap_inputs,
        context_fn=context_fn,
        preserve_rng_state=preserve_rng_state,
        determinism_check=determinism_check,
        early_stop=early_stop,
        group_swap=group_swap,
        cpu_pool=cpu_pool,
    )


def run_excluded(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, save_output: bool = True
) -> Any:
    """Calls ``fn`` once: a surrounding checkpoint keeps its result and what it saves.

    Without ``save_output`` the rerun passes empty tensors on, for a next excluded region that does
    not run again either. Outside a checkpoint it is a plain call.
    """
    if not active() or not actors():
        return fn(*args, **kwargs)
    forced = Forced.WITH_RESULT if save_output else Forced.WITHOUT_RESULT
    name = f"excluded {name_of(fn)}"
    return through_actors(name, args, kwargs, lambda: fn(*args, **kwargs), forced)


def is_recomputing() -> bool:
    """Is this code being run again by a checkpoint?"""
    return any(isinstance(one, Replay) for one in actors())


class RecomputeState:
    """Inside a checkpoint: whether this is its forward or the rerun."""

    def __init__(self, recomputing: bool) -> None:
        self.is_recomputing = recomputing

    def __repr__(self) -> str:
        return f"RecomputeState(is_recomputing={self.is_recomputing})"


def get_recompute_state() -> RecomputeState | None:
    """The state of the checkpoint around this code; None outside any."""
    return RecomputeState(is_recomputing()) if actors() else None
