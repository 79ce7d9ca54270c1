"""The planner's functions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from . import _restow
from ._job import (
    Dimensions,
    Job,
    JobLike,
    PathLike,
    Size,
    dimension_arguments,
    request_for,
    warn_of,
)
from ._reports import (
    Comparison,
    Device,
    Explanation,
    Model,
    PlanReport,
    PriceReport,
    comparison_of,
    device_of,
    explanation_of,
    model_of,
    plan_report_of,
    price_report_of,
)
from ._validation import (
    Calibration,
    RunReport,
    ValidationReport,
    calibration_of,
    run_of,
    validation_of,
)
from .errors import InputError, UnknownFieldWarning

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "calibrate",
    "compare",
    "devices",
    "explain",
    "export",
    "models",
    "plan",
    "price",
    "schema",
    "validate",
]


def plan(
    job: JobLike,
    *,
    top: int = 10,
    margin: Size | None = None,
    calibration: PathLike | None = None,
    threads: int | None = None,
    strict: bool = False,
    **dimensions: Unpack[Dimensions],
) -> PlanReport:
    """Searches layouts and recompute, and ranks what fits by step time.

    ``job`` is a path, a dict of what a job file holds, or a :class:`restow.Job`. Dimensions
    (``tp=[4, 8]``, ``sp=True``, ``recompute="auto"``) replace what the job's ``search`` says.
    ``margin`` is memory kept free per device (``"2GiB"``, or bytes), ``threads`` None takes all.

    Where nothing fits, ``report.ranked`` is empty and ``report.nearest_misses`` is not. Raises
    :class:`restow.InputError`. Ctrl-C ends the search and raises KeyboardInterrupt. Other Python
    threads run meanwhile.
    """
    request = request_for(job, dimension_arguments(dimensions), margin, calibration, strict)
    answer = _restow.plan(request, top, threads)
    _warn(job, answer.warnings)
    return plan_report_of(answer)


def price(
    job: JobLike,
    *,
    margin: Size | None = None,
    calibration: PathLike | None = None,
    strict: bool = False,
    **dimensions: Unpack[Dimensions],
) -> PriceReport:
    """Prices one candidate, whether it fits or not: memory and time by term.

    Every searched dimension is stated as one value; those left out take the job's current value or
    follow from the rest. Raises :class:`restow.InputError` where one is missing or a list.
    """
    request = request_for(job, dimension_arguments(dimensions), margin, calibration, strict)
    answer = _restow.price(request)
    _warn(job, answer.warnings)
    return price_report_of(answer)


def explain(
    job: JobLike,
    *,
    margin: Size | None = None,
    calibration: PathLike | None = None,
    threads: int | None = None,
    strict: bool = False,
    **dimensions: Unpack[Dimensions],
) -> Explanation:
    """Says why a candidate was refused or lost, and which small changes would fit.

    The dimensions name the candidate; it is held against the job's whole search. Where some are
    left open, the best of what is left stands for them. Ctrl-C raises KeyboardInterrupt.
    """
    request = request_for(job, [], margin, calibration, strict)
    answer = _restow.explain(request, dimension_arguments(dimensions), threads)
    _warn(job, answer.warnings)
    return explanation_of(answer)


def compare(
    job: JobLike,
    a: int | str | Mapping[str, object],
    b: int | str | Mapping[str, object],
    *,
    margin: Size | None = None,
    calibration: PathLike | None = None,
    threads: int | None = None,
    strict: bool = False,
    **dimensions: Unpack[Dimensions],
) -> Comparison:
    """Sets two candidates side by side.

    Each is a rank of the plan, ``"current"``, or dimensions: ``"tp=8 pp=4 recompute=full"`` or
    ``{"tp": 8, "pp": 4, "recompute": "full"}``. Ctrl-C raises KeyboardInterrupt.
    """
    request = request_for(job, dimension_arguments(dimensions), margin, calibration, strict)
    answer = _restow.compare(request, _side(a), _side(b), threads)
    _warn(job, answer.warnings)
    return comparison_of(answer)


def export(
    job: JobLike,
    *,
    out: PathLike,
    to: str = "restow",
    rank: int | None = None,
    modules: str = "model.layers.{layer}",
    margin: Size | None = None,
    calibration: PathLike | None = None,
    threads: int | None = None,
    strict: bool = False,
    **dimensions: Unpack[Dimensions],
) -> list[Path]:
    """Writes the activation plan of a candidate, one file per stage; returns their paths.

    The candidate is that of ``rank`` (1 unless stated) or the one that dimensions name. ``modules``
    is how the model names its layers. All files are written or none. Raises
    :class:`restow.NothingFits` where there is no such candidate, :class:`restow.InputError`.
    """
    arguments = dimension_arguments(dimensions)
    if rank is not None and arguments:
        raise InputError("rank and dimensions both choose a candidate; state one of them")
    chosen = 1 if rank is None and not arguments else rank
    request = request_for(job, arguments, margin, calibration, strict)
    exported = _restow.export(request, to, _text(out), chosen, modules, threads)
    _warn(job, exported.warnings)
    return [Path(path) for path in exported.paths]


@overload
def models(model: None = None, *, strict: bool = False) -> list[Model]: ...
@overload
def models(model: PathLike, *, strict: bool = False) -> Model: ...
def models(model: PathLike | None = None, *, strict: bool = False) -> Model | list[Model]:
    """What is read of a model: a config.json or its folder, a job file, or a preset's name.

    Without an argument, all presets. Raises :class:`restow.Unsupported` for a family that cannot
    be priced, :class:`restow.InputError`.
    """
    if model is None:
        return [model_of(_restow.model(name, False)) for name in _restow.model_presets()]
    return model_of(_restow.model(_text(model), strict))


@overload
def devices(device: None = None) -> list[Device]: ...
@overload
def devices(device: str) -> Device: ...
def devices(device: str | None = None) -> Device | list[Device]:
    """A device preset with the source of its figures; without an argument, all of them."""
    if device is None:
        return [device_of(_restow.device(name)) for name in _restow.device_presets()]
    return device_of(_restow.device(device))


@overload
def schema(name: None = None) -> list[str]: ...
@overload
def schema(name: str) -> dict[str, Any]: ...
def schema(name: str | None = None) -> list[str] | dict[str, Any]:
    """A published JSON Schema; without an argument, their names."""
    if name is None:
        return _restow.schema_names()
    document: dict[str, Any] = json.loads(_restow.schema(name))
    return document


@overload
def validate(
    runs: PathLike, *, row: None = None, by: str = "source", calibration: PathLike | None = None
) -> ValidationReport: ...
@overload
def validate(
    runs: PathLike, *, row: str, by: str = "source", calibration: PathLike | None = None
) -> RunReport: ...
def validate(
    runs: PathLike,
    *,
    row: str | None = None,
    by: str = "source",
    calibration: PathLike | None = None,
) -> ValidationReport | RunReport:
    """Holds predictions against measured runs, a CSV with the columns of ``measured-runs.csv``.

    ``by`` groups errors by ``source``, ``model`` or ``device``. With ``row``, one run is shown
    whole: the job made of it and its figures.
    """
    constants = None if calibration is None else _text(calibration)
    if row is not None:
        return run_of(_restow.run(_text(runs), row, constants))
    return validation_of(_restow.validate(_text(runs), by, constants), by)


def calibrate(runs: PathLike, *, out: PathLike | None = None) -> Calibration:
    """Fits the planner's constants to measured runs and writes them to ``out``, if given.

    ``plan(..., calibration=out)`` then uses them. Raises :class:`restow.InputError` when the runs
    determine none of the constants. Takes seconds to a minute; Ctrl-C stops it.
    """
    return calibration_of(_restow.calibrate(_text(runs), "" if out is None else _text(out)))


def _side(side: int | str | Mapping[str, object]) -> str:
    if isinstance(side, Mapping):
        return " ".join(dimension_arguments(side))
    return str(side)


def _text(path: PathLike) -> str:
    return os.fsdecode(path)


def _warn(job: JobLike, messages: list[str]) -> None:
    """A Job has warned when it was made."""
    if not isinstance(job, Job):
        warn_of(messages, UnknownFieldWarning, 3)
