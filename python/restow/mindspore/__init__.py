"""The activation engine in MindSpore: swap and recompute with bit-identical gradients.

>>> import restow.mindspore as rm
>>> rm.configure(file_dir="/scratch")
>>> for i, block in enumerate(model.blocks):
...     model.blocks[i] = rm.swap_wrapper(block)

Everything that a wrapped block saves for backward leaves memory after it was computed and is back
before its backward needs it; the order is learnt in the first step. docs/mindspore.md has the rest.
"""

from typing import Any

from restow._explanations import Explanations
from restow._plan_schema import ActivationPlan
from restow._policy import CheckpointPolicy
from restow.errors import Unsupported
from restow.mindspore._checkpoint import (
    RecomputeState,
    checkpoint,
    get_recompute_state,
    is_recomputing,
)
from restow.mindspore._explain import explain
from restow.mindspore._manager import SwapManager
from restow.mindspore._marks import swap_tensor_wrapper
from restow.mindspore._plan import Applied, KeepWrapper, apply
from restow.mindspore._regions import AsyncSaveOnCpu, HostPool, group, region, swap
from restow.mindspore._saver import base_check_fn
from restow.mindspore._settings import configure
from restow.mindspore._stats import Stats, reset_stats, stats, trace
from restow.mindspore._wrappers import (
    ActivationWrapper,
    CheckpointWrapper,
    ExcludeWrapper,
    FuncCell,
    SwapWrapper,
    checkpoint_exclude_wrapper,
    checkpoint_wrapper,
    ckpt_wrapper,
    swap_wrapper,
    unwrap,
)

__all__ = [
    "ActivationPlan",
    "ActivationWrapper",
    "Applied",
    "AsyncSaveOnCpu",
    "CheckpointPolicy",
    "CheckpointWrapper",
    "ExcludeWrapper",
    "Explanations",
    "FuncCell",
    "HostPool",
    "KeepWrapper",
    "RecomputeState",
    "Stats",
    "SwapManager",
    "SwapWrapper",
    "apply",
    "base_check_fn",
    "checkpoint",
    "checkpoint_exclude_wrapper",
    "checkpoint_wrapper",
    "ckpt_wrapper",
    "configure",
    "create_selective_checkpoint_contexts",
    "explain",
    "fit",
    "get_recompute_state",
    "group",
    "ignore_sac_ops",
    "is_recomputing",
    "region",
    "reset_stats",
    "stats",
    "swap",
    "swap_tensor_wrapper",
    "swap_wrapper",
    "trace",
    "unwrap",
]


def create_selective_checkpoint_contexts(*args: Any, **kwargs: Any) -> Any:
    """Not available: checkpoint(fn, ..., policy_fn=...) asks a policy for each operator."""
    raise Unsupported(
        "create_selective_checkpoint_contexts is not available in restow.mindspore in this version; "
        "use checkpoint(fn, ..., policy_fn=policy)"
    )


def ignore_sac_ops(ops: Any) -> Any:
    """Not available in this version."""
    raise Unsupported("ignore_sac_ops is not available in restow.mindspore in this version")


def fit(*args: Any, **kwargs: Any) -> Any:
    """Not available in this version."""
    raise Unsupported("fit is not available in restow.mindspore in this version")
