"""`apply`: carries out an activation plan on a model, and measures it against its predictions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from restow._plan_report import PlanReport, RegionRow
from restow._plan_schema import ActivationPlan, PathLike, PlannedRegion, PlannedSwap
from restow.errors import Error, Unsupported
from restow.torch import _regions, _selective, _settings, _stats
from restow.torch._load import native
from restow.torch._wcompile import never_compiled
from restow.torch._wrappers import ActivationWrapper, CheckpointWrapper, SwapWrapper

__all__ = ["ActivationPlan", "Applied", "KeepWrapper", "apply"]

# Models under a plan, with its name. A model may die under one.
_applied: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()


class KeepWrapper(ActivationWrapper):
    """Runs a module whose saved tensors stay where they are, guarded and counted.

    It may lie inside a swapped module: its tensors then stay.
    """

    _nests = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._ckpt_wrapped_module
        return _regions.run_kept(inner, args, kwargs, name=self._site, owner=inner)


never_compiled(KeepWrapper.forward)


@dataclass(frozen=True)
class _Planned:
    """A module that a region of the plan takes."""

    name: str
    module: nn.Module
    region: PlannedRegion


@dataclass(frozen=True)
class _Link:
    """A place in the tree where a wrapper stands for its inner module."""

    parent: nn.Module
    name: str
    wrapper: ActivationWrapper


class Applied:
    """A plan at work on a model; `undo` ends it."""

    def __init__(
        self,
        model: nn.Module,
        plan: ActivationPlan,
        planned: list[_Planned],
        links: list[_Link],
        restore: Callable[[], None],
    ) -> None:
        self._model = model
        self._plan = plan
        self._planned = planned
        self._links = links
        self._restore = restore
        self._before = {name: site.invocations for name, site in _stats.site_bytes().items()}
        self._undone = False

    @property
    def plan(self) -> ActivationPlan:
        """The plan that is carried out."""
        return self._plan

    def undo(self) -> None:
        """Restores the model's tree and the settings that the plan replaced; again: nothing.

        A place that has been given another module meanwhile keeps it. Tensors that are swapped or
        to be recomputed stay so until their backward.
        """
        if self._undone:
            return
        self._undone = True
        _take_out(self._links)
        self._restore()
        _applied.pop(self._model, None)

    def report(self) -> PlanReport:
        """Bytes predicted against those of each module's last finished call; prints as a table."""
        measured = _stats.site_bytes()
        return PlanReport(tuple(self._row(planned, measured) for planned in self._planned))

    def _row(self, planned: _Planned, measured: Mapping[str, _stats.SiteBytes]) -> RegionRow:
        site = measured.get(planned.name)
        ran = site is not None and site.invocations not in (0, self._before.get(planned.name))
        # A checkpoint keeps its inputs, and under a site of its own what it selects.
        kept = measured.get(native.kept_site(planned.name))
        sites = [one for one in (site, kept if planned.region.mode == "selective" else None) if one]
        predicted = planned.region.predicted
        return RegionRow(
            module=planned.name,
            mode=planned.region.mode,
            predicted_kept_bytes=predicted.kept_bytes,
            predicted_swapped_bytes=predicted.swapped_bytes,
            kept_bytes=sum(one.kept_bytes for one in sites) if ran else None,
            swapped_bytes=sum(one.swapped_bytes for one in sites) if ran else None,
        )


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
    if not isinstance(model, nn.Module):
        raise TypeError(f"apply takes a module, not {type(model).__name__}")
    if model in _applied:
        raise Error(
            f"the plan {_applied[model]} is at work on this {type(model).__name__}; undo() it first"
        )
    plan = _read(plan)
    planned = _matched(model, plan)
    _refuse_unsupported(plan, planned)
    links = _wrap(model, planned)
    try:
        restore = _configured(plan.swap)
    except BaseException:
        _take_out(links)
        raise
    _applied[model] = plan.name
    return Applied(model, plan, planned, links, restore)


def _read(plan: ActivationPlan | Mapping[str, Any] | PathLike) -> ActivationPlan:
    if isinstance(plan, ActivationPlan):
        return plan
    if isinstance(plan, Mapping):
        return ActivationPlan.from_dict(plan)
    return ActivationPlan.from_file(plan)


def _matched(model: nn.Module, plan: ActivationPlan) -> list[_Planned]:
    """A module with several names goes by the first that a pattern matches."""
    modules: dict[str, nn.Module] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        # Of a wrapper and what it wraps, under one name, the wrapper: wrapping it is refused.
        modules.setdefault(name, module)
    modules.pop("", None)
    planned: dict[nn.Module, _Planned] = {}
    for name, region in plan.match(list(modules)):
        planned.setdefault(modules[name], _Planned(name, modules[name], region))
    return list(planned.values())


def _refuse_unsupported(plan: ActivationPlan, planned: list[_Planned]) -> None:
    if plan.defaults.mode != "keep":
        raise Unsupported(
            f"{plan.name}: defaults.mode is {plan.defaults.mode}; this version takes only keep "
            "there: name the modules in a region instead"
        )
    again = ("recompute", "swap+recompute", "selective")
    recomputed = [p.name + "." for p in planned if p.region.mode in again]
    for each in planned:
        if each.region.mode == "selective" and not (each.region.save or each.region.swap):
            raise Unsupported(
                f"{plan.name}: '{each.region.module}' is selective and names no operator to save or "
                "swap; name some, or use recompute, swap or keep"
            )
        outer = next((name for name in recomputed if each.name.startswith(name)), None)
        if outer is not None:
            raise Unsupported(
                f"{plan.name}: '{each.name}' is to be kept inside '{outer[:-1]}', which is "
                "recomputed; this version recomputes a module whole"
            )


def _wrapper_for(planned: _Planned) -> ActivationWrapper:
    region = planned.region
    kinds: dict[str, Callable[[], ActivationWrapper]] = {
        "keep": lambda: KeepWrapper(planned.module),
        "recompute": lambda: CheckpointWrapper(planned.module),
        "swap": lambda: SwapWrapper(planned.module, min_bytes=region.min_bytes, tier=region.tier),
        "selective": lambda: CheckpointWrapper(
            planned.module,
            policy_fn=_selective.names_of(region.save, region.recompute, region.swap),
            min_bytes=region.min_bytes,
            tier=region.tier,
        ),
        "swap+recompute": lambda: CheckpointWrapper(
            planned.module, swap_inputs=True, min_bytes=region.min_bytes, tier=region.tier
        ),
    }
    wrapper = kinds[region.mode]()
    wrapper._site = planned.name
    return wrapper


def _to_wrap(planned: list[_Planned]) -> list[_Planned]:
    """Without kept modules around others that are planned: what else is in them stays anyway."""
    inner = [each.name for each in planned]
    return [
        each
        for each in planned
        if each.region.mode != "keep" or not any(n.startswith(each.name + ".") for n in inner)
    ]


def _wrap(model: nn.Module, planned: list[_Planned]) -> list[_Link]:
    """All or none of them."""
    places: dict[nn.Module, list[tuple[nn.Module, str]]] = {}
    for parent in list(model.modules()):
        if not isinstance(parent, ActivationWrapper):
            for name, child in parent._modules.items():
                if child is not None:
                    places.setdefault(child, []).append((parent, name))
    wrappers: list[ActivationWrapper] = []
    links: list[_Link] = []
    try:
        for each in _to_wrap(planned):
            wrapper = _wrapper_for(each)
            wrappers.append(wrapper)
            links += [_Link(parent, name, wrapper) for parent, name in places[each.module]]
    except BaseException:
        for wrapper in wrappers:
            wrapper.release()
        raise
    for link in links:
        link.parent._modules[link.name] = link.wrapper
    return links


def _take_out(links: list[_Link]) -> None:
    for link in links:
        if link.parent._modules.get(link.name) is link.wrapper:
            link.parent._modules[link.name] = link.wrapper.unwrap_module
    for wrapper in {link.wrapper: None for link in links}:
        wrapper.release()


def _configured(swap: PlannedSwap) -> Callable[[], None]:
    """Sets what the plan says of swap; returns what sets it back."""
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
