"""Recompute: run a function again in backward instead of keeping what it saves."""

import contextlib
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch.utils import _pytree as pytree

from restow import _enabled
from restow.errors import InputError, ModifiedInPlace, Unsupported
from restow.torch import _owners
from restow.torch._load import native
from restow.torch._regions import HostPool, Size, _new_region, name_of, run_kept
from restow.torch._selective import create_selective_checkpoint_contexts
from restow.torch._wcompile import never_compiled

ContextFn = Callable[
    [], tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]
]

_CHECKS = {"none": 0, "default": 1, "values": 2}


class _Hole:
    """Where a tensor stood in the arguments."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def _take_tensors(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[torch.Tensor], list[Any], Any]:
    """The tensors, and the leaves without them: a frame must not hold tensors in Python."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    tensors: list[torch.Tensor] = []
    places: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            places.append(_Hole(len(tensors)))
            tensors.append(leaf)
        else:
            places.append(leaf)
    return tensors, places, structure


def _refill(
    places: list[Any], structure: Any, tensors: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    leaves = [tensors[place.index] if isinstance(place, _Hole) else place for place in places]
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return args, kwargs


def _check_options(determinism_check: str, early_stop: Any) -> None:
    if determinism_check not in _CHECKS:
        allowed = ", ".join(repr(name) for name in _CHECKS)
        raise InputError(f"determinism_check={determinism_check!r}; allowed are {allowed}")
    if not isinstance(early_stop, bool):
        raise InputError(f"early_stop={early_stop!r} is neither True nor False")


def _contexts(
    policy_fn: Any,
    context_fn: Optional[ContextFn],
    group_swap: bool,
    cpu_pool: Optional[HostPool],
    tier: Any,
) -> tuple[Any, Any]:
    """What surrounds the forward and the rerun; the policy's contexts are the inner ones."""
    if policy_fn is None:
        return (None, None) if context_fn is None else context_fn()
    pairs = [] if context_fn is None else [context_fn()]
    pairs.append(
        create_selective_checkpoint_contexts(
            policy_fn, group_swap=group_swap, cpu_pool=cpu_pool, tier=tier
        )
    )
    return _Stacked([pair[0] for pair in pairs]), _Stacked([pair[1] for pair in pairs])


class _Stacked:
    """Contexts entered in order and left in reverse."""

    def __init__(self, contexts: list[Any]) -> None:
        self._contexts = contexts
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "_Stacked":
        with contextlib.ExitStack() as stack:
            for one in self._contexts:
                stack.enter_context(one)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._stack.__exit__(*error)


def run_checkpointed(
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    policy_fn: Any = None,
    swap_inputs: bool = False,
    context_fn: Optional[ContextFn] = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    early_stop: bool = True,
    group_swap: bool = False,
    cpu_pool: Optional[HostPool] = None,
    name: Optional[str] = None,
    owner: Any = None,
    min_bytes: Optional[Size] = None,
    tier: Optional[str] = None,
) -> Any:
    """Calls ``fn`` and keeps only its inputs; backward runs it again. See `checkpoint`."""
    _check_options(determinism_check, early_stop)
    if not _enabled.is_enabled() or not torch.is_grad_enabled():
        return fn(*args, **kwargs)
    forward, replay = _contexts(policy_fn, context_fn, group_swap, cpu_pool, tier)
    site = name or name_of(fn)
    inputs_region = None
    if swap_inputs:
        whose = fn if owner is None else owner
        _owners.check_can_move(whose, args, kwargs)
        _owners.remember(whose)
        inputs_region = _new_region(site, True, None, group_swap, cpu_pool, min_bytes, tier)
    tensors, places, structure = _take_tensors(args, kwargs)

    def rerun(again: tuple[Any, ...]) -> None:
        its_args, its_kwargs = _refill(places, structure, again)
        del again
        with replay or contextlib.nullcontext():
            fn(*its_args, **its_kwargs)

    frame = native.begin_frame(
        site,
        tuple(tensors),
        rerun,
        preserve_rng_state,
        early_stop,
        _CHECKS[determinism_check],
        inputs_region,
    )
    del tensors
    try:
        if forward is None:
            return fn(*args, **kwargs)
        with forward:
            return fn(*args, **kwargs)
    finally:
        frame.end()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    policy_fn: Any = None,
    swap_inputs: bool = False,
    context_fn: Optional[ContextFn] = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    early_stop: bool = True,
    group_swap: bool = False,
    cpu_pool: Optional[HostPool] = None,
    use_reentrant: bool = False,
    **kwargs: Any,
) -> Any:
    """Runs one call of ``function``, and runs it again in backward instead of keeping what it saves.

    Keywords as in ``torch.utils.checkpoint.checkpoint``, always non-reentrant. ``policy_fn``: a
    policy or list of operators that are not run again, see `create_selective_checkpoint_contexts`.
    ``swap_inputs`` moves what the checkpoint itself keeps, its inputs. ``determinism_check``:
    "default" compares sizes, types, devices and the number of what is saved, "values" also the
    bytes (slow: for debugging), "none" nothing.
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


class _Result:
    """A tensor that an excluded region gave: its memory without history."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor.detach()
        self._version = self._tensor._version
        self._requires_grad = tensor.requires_grad

    def empty(self) -> "_Result":
        return _Result(self._tensor.new_empty(0).requires_grad_(self._requires_grad))

    def again(self, name: str) -> torch.Tensor:
        """What the rerun gets. Errors: ModifiedInPlace, when somebody wrote into it meanwhile."""
        if self._tensor._version != self._version:
            raise ModifiedInPlace(
                f"a result of the excluded region {name!r}, of sizes {list(self._tensor.shape)}, "
                "was changed in place, so that a recompute cannot use it again. Change a clone of it"
            )
        return self._tensor.detach().requires_grad_(self._requires_grad)


def run_excluded(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, save_output: bool = True
) -> Any:
    """Calls ``fn`` once: a surrounding checkpoint keeps its result and what it saves.

    Without ``save_output`` the rerun passes empty tensors on, for a next excluded region that does
    not run again either. Outside a checkpoint it is a plain call.
    """
    state = native.next_excluded() if _enabled.is_enabled() else None
    if state is None:
        return fn(*args, **kwargs)
    again, number = state
    stored = native.take_excluded(number) if again else None
    if stored is not None:
        leaves, structure = stored
        name = name_of(fn)
        leaves = [leaf.again(name) if isinstance(leaf, _Result) else leaf for leaf in leaves]
        return pytree.tree_unflatten(leaves, structure)
    result = run_kept(fn, args, kwargs, name=f"excluded {name_of(fn)}")
    if not again:
        leaves, structure = pytree.tree_flatten(result)
        kept = [_Result(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if not save_output:
            kept = [leaf.empty() if isinstance(leaf, _Result) else leaf for leaf in kept]
        native.store_excluded(number, (kept, structure))
    return result


def is_recomputing() -> bool:
    """Is this code being run again by a checkpoint?"""
    return bool(native.recompute_state() == 2)


class RecomputeState:
    """Inside a checkpoint: whether this is its forward or the rerun."""

    def __init__(self, recomputing: bool) -> None:
        self.is_recomputing = recomputing

    def __repr__(self) -> str:
        return f"RecomputeState(is_recomputing={self.is_recomputing})"


def get_recompute_state() -> Optional[RecomputeState]:
    """The state of the checkpoint around this code; None outside any."""
    state = native.recompute_state()
    return None if state == 0 else RecomputeState(state == 2)


for _entry in (
    run_checkpointed,
    run_excluded,
):
    never_compiled(_entry)
