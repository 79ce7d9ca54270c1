"""`apply`: carries out an activation plan on a cell, and measures it against its predictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Union

from mindspore.graph.api import _run_in_jit

from restow._applied import Applied, Face, Planned, Plans
from restow._plan_schema import ActivationPlan, PathLike, PlannedSwap
from restow.errors import Unsupported
from restow.mindspore import _explain, _overlap, _owners, _regions, _settings
from restow.mindspore._wrappers import (
    ActivationWrapper,
    CheckpointWrapper,
    SwapWrapper,
    put_child,
)

__all__ = ["ActivationPlan", "Applied", "KeepWrapper", "apply"]


class KeepWrapper(ActivationWrapper):
    """Runs a cell whose saved tensors stay where they are, guarded and counted.

    It may lie inside a swapped cell: its tensors then stay.
    """

    _nests = True

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        if _run_in_jit():  # @jit.cond: True
            raise RuntimeError(
                "a KeepWrapper cannot be compiled: inside jit and graph mode MindSpore's compiler "
                "decides what is kept. Use cell.recompute() there, or run in PyNative mode"
            )
        return self._run(args, kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inner = self._ckpt_wrapped_module
        return _regions.run_kept(inner, args, kwargs, name=self._site, owner=inner)


def apply(model: Any, plan: Union[ActivationPlan, Mapping[str, Any], PathLike]) -> Applied:
    """Carries out an activation plan: wraps the cells that its patterns match, in place.

    ``plan`` is an `ActivationPlan`, what its file holds, or the file's path. Names and parameters
    of the model stay as they are. The plan's ``swap`` settings hold for the process until
    `Applied.undo`. On CPU what a plan moves goes to files, whichever tier it names.

    When anything is refused, nothing is changed: `restow.InputError` for a plan that is no plan or
    does not fit the model, `restow.Unsupported` for what this version cannot carry out,
    `restow.Overlap` where the model has wrappers already, `restow.Error` for a second plan on one
    model. Call it while no forward or backward of the model runs.
    """
    return _plans.apply(model, plan)


def _refuse(plan: str, planned: list[Planned]) -> None:
    for each in planned:
        if each.region.mode == "selective":
            raise Unsupported(
                f"{plan}: '{each.region.module}' is selective, which restow.mindspore does not "
                "carry out in this version; use recompute, swap, swap+recompute or keep"
            )
    if any("swap" in each.region.mode for each in planned):
        _owners.check_can_move()


def _wrap(planned: Planned) -> ActivationWrapper:
    region, cell = planned.region, planned.module
    if region.mode == "keep":
        return KeepWrapper(cell)
    if region.mode == "recompute":
        return CheckpointWrapper(cell)
    if region.mode == "swap":
        return SwapWrapper(cell, min_bytes=region.min_bytes, tier=region.tier)
    return CheckpointWrapper(
        cell, swap_inputs=True, min_bytes=region.min_bytes, tier=region.tier
    )


def _configure(swap: PlannedSwap) -> Callable[[], None]:
    before = _settings.current()

    def put(host_cap: int, window: int, keep_last_region: bool) -> None:
        _settings.restore(
            dataclasses.replace(
                _settings.current(),
                host_cap=host_cap,
                window=window,
                keep_last_region=keep_last_region,
            )
        )

    put(
        swap.host_bytes_cap or before.host_cap,
        swap.window_bytes or before.window,
        swap.keep_last_region,
    )
    return lambda: put(before.host_cap, before.window, before.keep_last_region)


_plans = Plans(
    Face(
        family=_overlap.family,
        put=put_child,
        wrap=_wrap,
        refuse=_refuse,
        configure=_configure,
        site_bytes=_explain.site_bytes,
        further_sites=lambda planned: (),
    )
)
