"""`apply`: carries out an activation plan on a model, and measures it against its predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from restow._applied import Applied, Face, Planned, Plans
from restow._plan_schema import ActivationPlan, PathLike, PlannedSwap
from restow.errors import Unsupported
from restow.torch import _overlap, _regions, _selective, _settings, _stats
from restow.torch._load import native
from restow.torch._wcompile import never_compiled
from restow.torch._wrappers import ActivationWrapper, CheckpointWrapper, SwapWrapper

__all__ = ["ActivationPlan", "Applied", "KeepWrapper", "apply"]


class KeepWrapper(ActivationWrapper):
    """Runs a module whose saved tensors stay where they are, guarded and counted.

    It may lie inside a swapped module: its tensors then stay.
    """

    _nests = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._ckpt_wrapped_module
        return _regions.run_kept(inner, args, kwargs, name=self._site, owner=inner)


never_compiled(KeepWrapper.forward)


def apply(model: nn.Module, plan: ActivationPlan | Mapping[str, Any] | PathLike) -> Applied:
    """Carries out an activation plan: wraps the modules that its patterns match, in place.

    ``plan`` is an `ActivationPlan`, what its file holds, or the file's path. Names, parameters and
    state dicts of the model stay as they are. The plan's ``swap`` settings hold for the process
    until `Applied.undo`.

    When anything is refused, nothing is changed: `restow.InputError` for a plan that is no plan or
    does not fit the model, `restow.Unsupported` for what this version cannot carry out,
    `restow.Overlap` where the model has wrappers already, `restow.Error` for a second plan on one
    model. Call it while no forward or backward of the model runs.
    """
    return _plans.apply(model, plan)


def _put(parent: nn.Module, name: str, child: nn.Module) -> None:
    parent._modules[name] = child


def _refuse(plan: str, planned: list[Planned]) -> None:
    for each in planned:
        region = each.region
        if region.mode == "selective" and not (region.save or region.swap):
            raise Unsupported(
                f"{plan}: '{region.module}' is selective and names no operator to save or swap; "
                "name some, or use recompute, swap or keep"
            )


def _wrap(planned: Planned) -> ActivationWrapper:
    region, module = planned.region, planned.module
    if region.mode == "keep":
        return KeepWrapper(module)
    if region.mode == "recompute":
        return CheckpointWrapper(module)
    if region.mode == "swap":
        return SwapWrapper(module, min_bytes=region.min_bytes, tier=region.tier)
    names = None
    if region.mode == "selective":
        names = _selective.names_of(region.save, region.recompute, region.swap)
    return CheckpointWrapper(
        module,
        policy_fn=names,
        swap_inputs=region.mode == "swap+recompute",
        min_bytes=region.min_bytes,
        tier=region.tier,
    )


def _further_sites(planned: Planned) -> tuple[str, ...]:
    """A checkpoint keeps its inputs, and under a site of its own what it selects."""
    return (native.kept_site(planned.name),) if planned.region.mode == "selective" else ()


def _configure(swap: PlannedSwap) -> Callable[[], None]:
    before = _settings.current()
    _settings.configure(
        host_cap=swap.host_bytes_cap or None,
        window=swap.window_bytes or None,
        keep_last_region=swap.keep_last_region,
    )
    return lambda: _settings.configure(
        host_cap=before["host_cap"],
        window=before["window"],
        keep_last_region=before["keep_last_region"],
    )


_plans = Plans(
    Face(
        family=_overlap.family,
        put=_put,
        wrap=_wrap,
        refuse=_refuse,
        configure=_configure,
        site_bytes=_stats.site_bytes,
        further_sites=_further_sites,
    )
)
