"""Jobs, and keyword arguments as the ``dimension=value`` arguments of the command."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from . import _restow
from .errors import InputError, UnknownFieldWarning

if TYPE_CHECKING:
    from typing_extensions import Unpack

Degree: TypeAlias = int | str | Sequence[int] | None
Word: TypeAlias = str | Sequence[str] | None
Size: TypeAlias = int | str
PathLike: TypeAlias = str | os.PathLike[str]
JobLike: TypeAlias = "PathLike | Mapping[str, Any] | Job"


class Dimensions(TypedDict, total=False):
    """What a search may vary: one value, a list of them, or ``"auto"``. None states nothing."""

    tp: Degree
    cp: Degree
    pp: Degree
    vpp: Degree
    ep: Degree
    etp: Degree
    dp: Degree
    micro_batch: Degree
    zero: Degree
    zero_span: Degree
    sp: bool | str | Sequence[bool] | None
    cp_kind: Word
    schedule: Word
    order: Word
    recompute: Word
    granularity: Word
    swap: Word


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def dimension_arguments(dimensions: Mapping[str, object]) -> list[str]:
    """``{"tp": [4, 8], "sp": True}`` as ``["tp=4,8", "sp=true"]``; the reader judges the values."""
    arguments = []
    for name, value in dimensions.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            raise InputError(f"{name} is a mapping; one value, a list of them, or 'auto' is expected")
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            text = ",".join(_word(element) for element in value) if value else "[]"
        else:
            text = _word(value)
        arguments.append(f"{name}={text}")
    return arguments


def size_text(size: Size | None) -> str | None:
    """A size with its unit; a bare integer counts bytes."""
    if isinstance(size, bool):
        raise InputError(f"margin is {size}; a size like '2GiB' or a number of bytes is expected")
    return f"{size}B" if isinstance(size, int) else size


def _path_text(path: PathLike) -> str:
    return os.fsdecode(path)


def _source(document: PathLike | Mapping[str, Any], folder: PathLike | None = None) -> _restow.Source:
    if not isinstance(document, Mapping):
        return _restow.Source.file(_path_text(document))
    try:
        # Indented, so that line numbers in errors lead somewhere.
        text = json.dumps(document, indent=2, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the job cannot be written as JSON: {error}", "<dict>") from error
    return _restow.Source.text(text, _path_text("." if folder is None else folder))


def _plain(value: object) -> object:
    """Paths, mappings and array scalars in a job's dict as JSON has them."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    item = getattr(value, "item", None)
    if callable(item):
        return item()
    raise TypeError(f"{value!r} is a {type(value).__name__}")


def warn_of(messages: Sequence[str], category: type[Warning], stacklevel: int) -> None:
    for message in messages:
        warnings.warn(message, category, stacklevel=stacklevel + 1)


class Job:
    """A whole question: model, cluster, training, what runs today, what may vary.

    Immutable; made by :meth:`from_file` or :meth:`from_dict`, which read and check it once. A file
    that changes afterwards does not change the job.
    """

    __slots__ = ("_calibration", "_dimensions", "_margin", "_source", "_strict", "_summary")

    _source: _restow.Source
    _dimensions: list[str]
    _margin: str | None
    _calibration: str | None
    _strict: bool
    _summary: _restow.Summary

    def __init__(self) -> None:
        raise TypeError("a Job is made by restow.Job.from_file or restow.Job.from_dict")

    @classmethod
    def from_file(
        cls,
        path: PathLike,
        *,
        margin: Size | None = None,
        calibration: PathLike | None = None,
        strict: bool = False,
    ) -> Job:
        """Reads a job file or a HyperParallel trainer YAML; ``"-"`` is standard input.

        Raises :class:`restow.InputError` with the place of the fault.
        """
        if isinstance(path, Mapping):
            raise TypeError("from_file takes a path; restow.Job.from_dict takes a dict")
        job = _new(_source(path), [], size_text(margin), calibration, strict)
        warn_of(job._summary.warnings, UnknownFieldWarning, 2)
        return job

    @classmethod
    def from_dict(
        cls,
        document: Mapping[str, Any],
        *,
        folder: PathLike | None = None,
        margin: Size | None = None,
        calibration: PathLike | None = None,
        strict: bool = False,
    ) -> Job:
        """Reads what a job file would hold. Relative paths inside start at ``folder``, else here.

        Raises :class:`restow.InputError`; its ``file`` is ``"<dict>"``, its line and column are
        those of ``json.dumps(document, indent=2)``.
        """
        if not isinstance(document, Mapping):
            raise TypeError("from_dict takes a dict; restow.Job.from_file takes a path")
        job = _new(_source(document, folder), [], size_text(margin), calibration, strict)
        warn_of(job._summary.warnings, UnknownFieldWarning, 2)
        return job

    @property
    def name(self) -> str:
        """As the job states it, else its file's name without the suffix."""
        return self._summary.name

    @property
    def digest(self) -> str:
        """Of everything read: 16 hexadecimal digits, as in every report of this job."""
        return self._summary.digest

    def with_(self, **dimensions: Unpack[Dimensions]) -> Job:
        """This job with dimensions stated anew; those left out stay as they are."""
        arguments = _restow.merge_dimensions(self._dimensions, dimension_arguments(dimensions))
        return _new(self._source, arguments, self._margin, self._calibration, self._strict)

    def __repr__(self) -> str:
        narrowed = "".join(" " + argument for argument in self._dimensions)
        return f"<restow.Job {self.name}{narrowed} {self.digest}>"


def _new(
    source: _restow.Source,
    dimensions: list[str],
    margin: str | None,
    calibration: PathLike | None,
    strict: bool,
) -> Job:
    job = object.__new__(Job)
    job._source = source
    job._dimensions = dimensions
    job._margin = margin
    job._calibration = None if calibration is None else _path_text(calibration)
    job._strict = bool(strict)
    job._summary = _restow.inspect(_request(job, []))
    return job


def _request(job: Job, arguments: list[str]) -> _restow.Request:
    dimensions = _restow.merge_dimensions(job._dimensions, arguments)
    return _restow.Request(job._source, dimensions, job._margin, job._calibration, job._strict)


def request_for(
    job: JobLike,
    arguments: list[str],
    margin: Size | None,
    calibration: PathLike | None,
    strict: bool,
) -> _restow.Request:
    """The question of one call: a job narrowed by ``arguments``. Options replace the job's own."""
    margin_text = size_text(margin)
    calibration_text = None if calibration is None else _path_text(calibration)
    if not isinstance(job, Job):
        return _restow.Request(
            _source(job), arguments, margin_text, calibration_text, bool(strict)
        )
    return _restow.Request(
        job._source,
        _restow.merge_dimensions(job._dimensions, arguments),
        job._margin if margin_text is None else margin_text,
        job._calibration if calibration_text is None else calibration_text,
        job._strict or bool(strict),
    )
