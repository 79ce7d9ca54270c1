"""`restow.activation-plan/1` as frozen dataclasses: what to do with the activations of each module.

`restow export JOB --to restow` writes such plans; `apply` of each framework (`_plan.py`) carries them out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from restow import _restow
from restow.errors import InputError

Mode = Literal["keep", "recompute", "selective", "swap", "swap+recompute"]
Tier = Literal["host", "file"]
PathLike = str | os.PathLike[str]

_SCHEMA = "restow.activation-plan/1"


@dataclass(frozen=True)
class Predicted:
    """What the planner expects of one module in one micro-batch: bytes, and seconds."""

    kept_bytes: int = 0
    swapped_bytes: int = 0
    recompute_s: float = 0.0


@dataclass(frozen=True)
class PlannedRegion:
    """What is done with the activations of the modules that a pattern matches."""

    module: str
    """A glob over module names: ``*`` within a segment, ``**`` across segments."""
    mode: Mode
    save: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    swap: tuple[str, ...] = ()
    min_bytes: int = 0
    """Smaller tensors are not swapped; 0: none is too small."""
    tier: Tier = "host"
    predicted: Predicted = Predicted()


@dataclass(frozen=True)
class PlanDefaults:
    """What holds for modules that no region matches."""

    mode: Mode = "keep"


@dataclass(frozen=True)
class PlannedSwap:
    """How swap runs under the plan; 0 bytes leave what `configure` says."""

    host_bytes_cap: int = 0
    window_bytes: int = 0
    keep_last_region: bool = True


@dataclass(frozen=True)
class ActivationPlan:
    """What to do with the activations of a model's modules: one stage of an exported plan.

    Immutable; `dataclasses.replace` makes variants.
    """

    regions: tuple[PlannedRegion, ...]
    """The first whose pattern matches takes a module."""
    defaults: PlanDefaults = PlanDefaults()
    swap: PlannedSwap = PlannedSwap()
    stage: int = 0
    stages: int = 1
    framework: str = "torch"
    job_digest: str = ""
    version: str = _restow.version
    name: str = "<plan>"
    """What messages call the plan: its file."""

    @staticmethod
    def from_file(path: PathLike) -> ActivationPlan:
        """Reads a plan; raises `restow.InputError` naming file, place and remedy."""
        name = os.fsdecode(path)
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the plan cannot be read: {error}", name) from error
        return ActivationPlan.from_json(text, name)

    @staticmethod
    def from_json(text: str, name: str = "<text>") -> ActivationPlan:
        """A plan from its text; `name` is what messages call it. Raises `restow.InputError`."""
        return _plan_of(json.loads(_restow.read_activation_plan(text, name)), name)

    @staticmethod
    def from_dict(document: Mapping[str, Any], name: str = "<dict>") -> ActivationPlan:
        """A plan from what its file holds. Raises `restow.InputError`."""
        try:
            text = json.dumps(document, indent=2)
        except (TypeError, ValueError) as error:
            raise InputError(f"the plan is no JSON: {error}", name) from error
        return ActivationPlan.from_json(text, name)

    def to_dict(self) -> dict[str, Any]:
        """What the plan's file holds."""
        return {
            "schema": _SCHEMA,
            "version": self.version,
            "job": {"digest": self.job_digest},
            "framework": self.framework,
            "stage": self.stage,
            "stages": self.stages,
            "defaults": asdict(self.defaults),
            "regions": [_document_of(region) for region in self.regions],
            "swap": asdict(self.swap),
        }

    def to_json(self) -> str:
        """The plan's file."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def match(self, names: Sequence[str]) -> list[tuple[str, PlannedRegion]]:
        """The modules among `names` that regions take, in that order, each with its region.

        Raises `restow.InputError` for a pattern that matches nothing, naming modules near it, and
        for a module inside another when neither is kept.
        """
        try:
            found = _restow.match_activation_plan(self.to_json(), self.name, list(names))
        except InputError as error:
            raise InputError(error.message, error.file or self.name) from None
        return [(module, self.regions[region]) for module, region in found]

    def with_mode(self, mode: Mode) -> ActivationPlan:
        """The same regions, all under `mode`; predictions stay as they are."""
        return replace(self, regions=tuple(replace(region, mode=mode) for region in self.regions))


def _document_of(region: PlannedRegion) -> dict[str, Any]:
    document = asdict(region)
    return {k: list(v) if isinstance(v, tuple) else v for k, v in document.items()}


def _region_of(document: Mapping[str, Any]) -> PlannedRegion:
    operators = {key: tuple(document[key]) for key in ("save", "recompute", "swap")}
    return PlannedRegion(
        module=document["module"],
        mode=cast(Mode, document["mode"]),
        min_bytes=document["min_bytes"],
        tier=cast(Tier, document["tier"]),
        predicted=Predicted(**document["predicted"]),
        **operators,
    )


def _plan_of(document: Mapping[str, Any], name: str) -> ActivationPlan:
    """From a document that the reader has checked."""
    return ActivationPlan(
        regions=tuple(_region_of(region) for region in document["regions"]),
        defaults=PlanDefaults(**document["defaults"]),
        swap=PlannedSwap(**document["swap"]),
        stage=document["stage"],
        stages=document["stages"],
        framework=document["framework"],
        job_digest=document["job"]["digest"],
        version=document["version"],
        name=name,
    )
