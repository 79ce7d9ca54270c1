"""The activation engine in PyTorch: swap and recompute with bit-identical gradients.

>>> import restow.torch as rt
>>> for i, block in enumerate(model.blocks):
...     model.blocks[i] = rt.swap_wrapper(block)

Everything that autograd saves inside a wrapped block leaves the device after it was computed and is
back before its backward needs it; the order is learnt in the first step. docs/torch.md has the
rest.
"""

from typing import Any

from restow._explanations import Explanations
from restow.errors import Unsupported
from restow.torch import _load as _load
from restow.torch._checkpoint import (
    RecomputeState,
    checkpoint,
    get_recompute_state,
    is_recomputing,
)
from restow.torch._manager import SwapManager
from restow.torch._marking import swap_tensor_wrapper
from restow.torch._plan import ActivationPlan, Applied, apply
from restow.torch._policy import CheckpointPolicy, decide as _decide
from restow.torch._regions import (
    AsyncSaveOnCpu,
    HostPool,
    base_check_fn,
    group,
    region,
    swap,
)
from restow.torch._selective import create_selective_checkpoint_contexts, ignore_sac_ops
from restow.torch._settings import configure
from restow.torch._stats import Stats, explain, reset_stats, stats, trace
from restow.torch._steering import SwapGroup
from restow.torch._wrappers import (
    ActivationWrapper,
    CheckpointWrapper,
    ExcludeWrapper,
    FuncModule,
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
    "FuncModule",
    "HostPool",
    "RecomputeState",
    "Stats",
    "SwapGroup",
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


def fit(model: Any, step_fn: Any, budget: Any = None) -> Any:
    """Choosing modes to meet a budget of bytes is not available in this version."""
    raise Unsupported(
        "restow.torch.fit is not available in this version; make a plan with `restow export` and "
        "carry it out with restow.torch.apply"
    )


def _start() -> None:
    import os

    import torch

    native = _load.native
    native.set_classes((torch.nn.Parameter, torch.nn.Buffer), _decide)
    hooks = os.environ.get("RESTOW_HOOKS", "proxy")
    if hooks not in ("proxy", "python"):
        raise ImportError(f"RESTOW_HOOKS={hooks!r}; allowed are 'proxy' and 'python'")
    native.use_proxy(hooks == "proxy")


_start()
