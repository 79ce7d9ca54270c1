"""A plan at work on a model, for any framework: which modules it takes, all or none, and back."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from restow._overlap import INNER, Family
from restow._plan_report import PlanReport, RegionRow, SiteBytes
from restow._plan_schema import ActivationPlan, PathLike, PlannedRegion, PlannedSwap
from restow.errors import Error, Unsupported

__all__ = ["Applied", "Face", "Planned", "Plans"]

_RERUN = ("recompute", "swap+recompute", "selective")


@dataclass(frozen=True)
class Planned:
    """A module that a region of the plan takes."""

    name: str
    module: Any
    region: PlannedRegion


@dataclass(frozen=True)
class _Link:
    """A place in the tree where a wrapper stands for its inner module."""

    parent: Any
    name: str
    wrapper: Any


@dataclass(frozen=True)
class Face:
    """What carrying out a plan needs of a framework."""

    family: Family
    # Puts a child at a place that exists: parent, name, child.
    put: Callable[[Any, str, Any], None]
    # The wrapper for a module. Errors: Overlap.
    wrap: Callable[[Planned], Any]
    # Raises Unsupported for what the framework cannot carry out. Arguments: plan's name, modules.
    refuse: Callable[[str, list[Planned]], None]
    # Sets what the plan says of swap; returns what sets it back.
    configure: Callable[[PlannedSwap], Callable[[], None]]
    site_bytes: Callable[[], Mapping[str, SiteBytes]]
    # Sites besides the module's name that count as its bytes.
    further_sites: Callable[[Planned], tuple[str, ...]]


class Applied:
    """A plan at work on a model; `undo` ends it."""

    def __init__(
        self, face: Face, plan: ActivationPlan, planned: list[Planned], end: Callable[[], None]
    ) -> None:
        self._face = face
        self._plan = plan
        self._planned = planned
        self._end: Callable[[], None] | None = end
        self._before = {name: site.invocations for name, site in face.site_bytes().items()}

    @property
    def plan(self) -> ActivationPlan:
        """The plan that is carried out."""
        return self._plan

    def undo(self) -> None:
        """Restores the model's tree and the settings that the plan replaced; again: nothing.

        A place that has been given another module meanwhile keeps it. Tensors that are swapped or
        to be recomputed stay so until their backward.
        """
        end, self._end = self._end, None
        if end is not None:
            end()

    def report(self) -> PlanReport:
        """Bytes predicted against those of each module's last finished call; prints as a table."""
        measured = self._face.site_bytes()
        return PlanReport(tuple(self._row(planned, measured) for planned in self._planned))

    def _row(self, planned: Planned, measured: Mapping[str, SiteBytes]) -> RegionRow:
        name = planned.name
        ran = name in measured and measured[name].invocations not in (0, self._before.get(name))
        sites = [
            measured[one] for one in (name, *self._face.further_sites(planned)) if one in measured
        ]
        predicted = planned.region.predicted
        return RegionRow(
            module=name,
            mode=planned.region.mode,
            predicted_kept_bytes=predicted.kept_bytes,
            predicted_swapped_bytes=predicted.swapped_bytes,
            kept_bytes=sum(one.kept_bytes for one in sites) if ran else None,
            swapped_bytes=sum(one.swapped_bytes for one in sites) if ran else None,
        )


class Plans:
    """The plans at work on models of one framework."""

    def __init__(self, face: Face) -> None:
        self._face = face
        # Models under a plan, with its name. A model may die under one.
        self._applied: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def apply(self, model: Any, plan: ActivationPlan | Mapping[str, Any] | PathLike) -> Applied:
        """See `apply` of the frameworks."""
        noun, kind = self._face.family.noun, type(model).__name__
        if not isinstance(model, self._face.family.module):
            raise TypeError(f"apply takes a {noun}, not {kind}")
        if model in self._applied:
            raise Error(
                f"the plan {self._applied[model]} is at work on this {kind}; undo() it first"
            )
        plan = _read(plan)
        planned = self._matched(model, plan)
        _refuse_unsupported(plan, planned)
        self._face.refuse(plan.name, planned)
        links = self._wrap(model, planned)
        try:
            restore = self._face.configure(plan.swap)
        except BaseException:
            self._take_out(links)
            raise
        self._applied[model] = plan.name

        def end() -> None:
            self._take_out(links)
            restore()
            self._applied.pop(model, None)

        return Applied(self._face, plan, planned, end)

    def _inner(self, module: Any) -> Any:
        while isinstance(module, self._face.family.wrapper):
            module = module.__dict__[INNER]
        return module

    def _children(self, module: Any) -> Iterator[tuple[str, Any]]:
        for name, child in self._face.family.children(self._inner(module)).items():
            if child is not None:
                yield name, child

    def _named(self, module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """All below, under each name; of a wrapper and what it wraps, the wrapper."""
        for name, child in self._children(module):
            yield prefix + name, child
            yield from self._named(child, f"{prefix}{name}.")

    def _matched(self, model: Any, plan: ActivationPlan) -> list[Planned]:
        """A module with several names goes by the first that a pattern matches."""
        modules = dict(self._named(model))
        planned: dict[Any, Planned] = {}
        for name, region in plan.match(list(modules)):
            planned.setdefault(modules[name], Planned(name, modules[name], region))
        return list(planned.values())

    def _places(self, model: Any) -> dict[Any, list[tuple[Any, str]]]:
        """Every module's parents, and its name in each."""
        places: dict[Any, list[tuple[Any, str]]] = {}
        left, seen = [model], set()
        while left:
            parent = self._inner(left.pop())
            if parent in seen:
                continue
            seen.add(parent)
            for name, child in self._children(parent):
                places.setdefault(child, []).append((parent, name))
                left.append(child)
        return places

    def _wrap(self, model: Any, planned: list[Planned]) -> list[_Link]:
        """All or none of them."""
        places = self._places(model)
        wrappers: list[Any] = []
        links: list[_Link] = []
        try:
            for each in _to_wrap(planned):
                wrapper = self._face.wrap(each)
                wrapper._site = each.name
                wrappers.append(wrapper)
                links += [_Link(parent, name, wrapper) for parent, name in places[each.module]]
        except BaseException:
            for wrapper in wrappers:
                wrapper.release()
            raise
        for link in links:
            self._face.put(link.parent, link.name, link.wrapper)
        return links

    def _take_out(self, links: list[_Link]) -> None:
        for link in links:
            if self._face.family.children(link.parent).get(link.name) is link.wrapper:
                self._face.put(link.parent, link.name, link.wrapper.__dict__[INNER])
        for wrapper in {link.wrapper: None for link in links}:
            wrapper.release()


def _read(plan: ActivationPlan | Mapping[str, Any] | PathLike) -> ActivationPlan:
    if isinstance(plan, ActivationPlan):
        return plan
    if isinstance(plan, Mapping):
        return ActivationPlan.from_dict(plan)
    return ActivationPlan.from_file(plan)


def _refuse_unsupported(plan: ActivationPlan, planned: list[Planned]) -> None:
    if plan.defaults.mode != "keep":
        raise Unsupported(
            f"{plan.name}: defaults.mode is {plan.defaults.mode}; this version takes only keep "
            "there: name the modules in a region instead"
        )
    recomputed = [one.name + "." for one in planned if one.region.mode in _RERUN]
    for each in planned:
        outer = next((name for name in recomputed if each.name.startswith(name)), None)
        if outer is not None:
            raise Unsupported(
                f"{plan.name}: '{each.name}' is to be kept inside '{outer[:-1]}', which is "
                "recomputed; this version recomputes a module whole"
            )


def _to_wrap(planned: list[Planned]) -> list[Planned]:
    """Without kept modules around others that are planned: what else is in them stays anyway."""
    inner = [each.name for each in planned]
    return [
        each
        for each in planned
        if each.region.mode != "keep" or not any(n.startswith(each.name + ".") for n in inner)
    ]
