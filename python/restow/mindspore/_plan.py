"""`apply`: carries out an activation plan on a cell, and measures it against its predictions."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

from mindspore import nn
from mindspore.graph.api import _run_in_jit

from restow._plan_report import PlanReport, RegionRow
from restow._plan_schema import ActivationPlan, PathLike, PlannedRegion, PlannedSwap
from restow.errors import Error, Unsupported
from restow.mindspore import _explain, _owners, _regions, _settings
from restow.mindspore._wrappers import (
    ActivationWrapper,
    CheckpointWrapper,
    SwapWrapper,
    put_child,
)

__all__ = ["ActivationPlan", "Applied", "KeepWrapper", "apply"]

# Models under a plan, with its name. A model may die under one.
_applied: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


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


@dataclasses.dataclass(frozen=True)
class _Planned:
    """A cell that a region of the plan takes."""

    name: str
    cell: Any
    region: PlannedRegion


@dataclasses.dataclass(frozen=True)
class _Link:
    """A place in the tree where a wrapper stands for its inner cell."""

    parent: Any
    name: str
    wrapper: ActivationWrapper


class Applied:
    """A plan at work on a model; `undo` ends it."""

    def __init__(
        self,
        model: Any,
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
        self._before = {name: one.invocations for name, one in _explain.site_bytes().items()}
        self._undone = False

    @property
    def plan(self) -> ActivationPlan:
        """The plan that is carried out."""
        return self._plan

    def undo(self) -> None:
        """Restores the model's tree and the settings that the plan replaced; again: nothing.

        A place that has been given another cell meanwhile keeps it. Tensors that are swapped or to
        be recomputed stay so until their backward.
        """
        if self._undone:
            return
        self._undone = True
        _take_out(self._links)
        self._restore()
        _applied.pop(self._model, None)

    def report(self) -> PlanReport:
        """Bytes predicted against those of each cell's last finished call; prints as a table."""
        measured = _explain.site_bytes()
        return PlanReport(tuple(self._row(planned, measured) for planned in self._planned))

    def _row(self, planned: _Planned, measured: Mapping[str, _explain.SiteBytes]) -> RegionRow:
        site = measured.get(planned.name)
        ran = site is not None and site.invocations not in (0, self._before.get(planned.name))
        predicted = planned.region.predicted
        return RegionRow(
            module=planned.name,
            mode=planned.region.mode,
            predicted_kept_bytes=predicted.kept_bytes,
            predicted_swapped_bytes=predicted.swapped_bytes,
            kept_bytes=site.kept_bytes if site is not None and ran else None,
            swapped_bytes=site.swapped_bytes if site is not None and ran else None,
        )


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
    if not isinstance(model, nn.Cell):
        raise TypeError(f"apply takes a cell, not {type(model).__name__}")
    if model in _applied:
        raise Error(
            f"the plan {_applied[model]} is at work on this {type(model).__name__}; undo() it first"
        )
    plan = _read(plan)
    planned = _matched(model, plan)
    _refuse_unsupported(plan, planned)
    links = _wrap(model, planned)
    restore = _configured(plan.swap)
    _applied[model] = plan.name
    return Applied(model, plan, planned, links, restore)


def _read(plan: Union[ActivationPlan, Mapping[str, Any], PathLike]) -> ActivationPlan:
    if isinstance(plan, ActivationPlan):
        return plan
    if isinstance(plan, Mapping):
        return ActivationPlan.from_dict(plan)
    return ActivationPlan.from_file(plan)


def _named(cell: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every cell below, under each of its names; of a wrapper and what it wraps, the wrapper."""
    while isinstance(cell, ActivationWrapper):
        cell = cell._ckpt_wrapped_module
    for name, child in cell._cells.items():
        if child is not None:
            yield prefix + name, child
            yield from _named(child, f"{prefix}{name}.")


def _matched(model: Any, plan: ActivationPlan) -> list[_Planned]:
    """A cell with several names goes by the first that a pattern matches."""
    cells = dict(_named(model))
    planned: dict[Any, _Planned] = {}
    for name, region in plan.match(list(cells)):
        planned.setdefault(cells[name], _Planned(name, cells[name], region))
    return list(planned.values())


def _refuse_unsupported(plan: ActivationPlan, planned: list[_Planned]) -> None:
    if plan.defaults.mode != "keep":
        raise Unsupported(
            f"{plan.name}: defaults.mode is {plan.defaults.mode}; this version takes only keep "
            "there: name the modules in a region instead"
        )
    recomputed = [p.name + "." for p in planned if "recompute" in p.region.mode]
    for each in planned:
        if each.region.mode == "selective":
            raise Unsupported(
                f"{plan.name}: '{each.region.module}' is selective, which restow.mindspore does not "
                "carry out in this version; use recompute, swap, swap+recompute or keep"
            )
        outer = next((name for name in recomputed if each.name.startswith(name)), None)
        if outer is not None:
            raise Unsupported(
                f"{plan.name}: '{each.name}' is to be kept inside '{outer[:-1]}', which is "
                "recomputed; this version recomputes a module whole"
            )
    if any("swap" in each.region.mode for each in planned):
        _owners.check_can_move()


def _wrapper_for(planned: _Planned) -> ActivationWrapper:
    region, cell = planned.region, planned.cell
    wrapper: ActivationWrapper
    if region.mode == "keep":
        wrapper = KeepWrapper(cell)
    elif region.mode == "recompute":
        wrapper = CheckpointWrapper(cell)
    elif region.mode == "swap":
        wrapper = SwapWrapper(cell, min_bytes=region.min_bytes, tier=region.tier)
    else:
        wrapper = CheckpointWrapper(
            cell, swap_inputs=True, min_bytes=region.min_bytes, tier=region.tier
        )
    wrapper._site = planned.name
    return wrapper


def _to_wrap(planned: list[_Planned]) -> list[_Planned]:
    """Without kept cells around others that are planned: what else is in them stays anyway."""
    inner = [each.name for each in planned]
    return [
        each
        for each in planned
        if each.region.mode != "keep" or not any(n.startswith(each.name + ".") for n in inner)
    ]


def _places(cell: Any, found: dict[Any, list[tuple[Any, str]]], seen: set[Any]) -> None:
    if cell in seen:
        return
    seen.add(cell)
    for name, child in cell._cells.items():
        if child is not None:
            found.setdefault(child, []).append((cell, name))
            _places(child, found, seen)


def _wrap(model: Any, planned: list[_Planned]) -> list[_Link]:
    """All or none of them."""
    places: dict[Any, list[tuple[Any, str]]] = {}
    _places(model, places, set())
    wrappers: list[ActivationWrapper] = []
    links: list[_Link] = []
    try:
        for each in _to_wrap(planned):
            wrapper = _wrapper_for(each)
            wrappers.append(wrapper)
            links += [_Link(parent, name, wrapper) for parent, name in places[each.cell]]
    except BaseException:
        for wrapper in wrappers:
            wrapper.release()
        raise
    for link in links:
        put_child(link.parent, link.name, link.wrapper)
    return links


def _take_out(links: list[_Link]) -> None:
    for link in links:
        if link.parent._cells.get(link.name) is link.wrapper:
            put_child(link.parent, link.name, link.wrapper.unwrap_cell)
    for wrapper in {link.wrapper: None for link in links}:
        wrapper.release()


def _configured(swap: PlannedSwap) -> Callable[[], None]:
    """Sets what the plan says of swap; returns what sets it back."""
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
