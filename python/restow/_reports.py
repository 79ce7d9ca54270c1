"""What the planner answers, typed.

Every class mirrors one object of the JSON that the command prints (``restow.schema(NAME)``):
``report.ranked[0].layout.tp`` is ``["ranked"][0]["layout"]["tp"]``. Bytes are integers, seconds
floats, percentages in percent; ranks count from 1, indexes from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from . import _frame, _html, _restow

if TYPE_CHECKING:
    import pandas

_Texts = Mapping[str, _restow.CandidateTexts]
_R = TypeVar("_R", bound="Report")


@dataclass(frozen=True)
class Layout:
    """One layout of the job over its devices. ``str()`` shows what is not 1 or off."""

    tp: int
    sp: bool
    cp: int
    pp: int
    vpp: int
    schedule: str
    ep: int
    etp: int
    dp: int
    zero: int
    micro_batch: int
    micro_batches: int
    order: str
    cp_kind: str | None = None
    """None where cp is 1."""
    zero_span: int | None = None
    """Devices that one shard spreads over; None: the whole group."""
    _text: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class LayerRun:
    """Neighbouring layers under one mode; ``layers`` is ``"0-3"`` or ``"4"``."""

    layers: str
    mode: str


@dataclass(frozen=True)
class StageRecompute:
    """Layers of one stage by what is done with their activations."""

    layers: int
    off: int
    selective: int
    full: int
    swapped: int


@dataclass(frozen=True)
class SubmoduleRecompute:
    """The mode on one part of a multimodal model, and the operators that ``selective`` keeps."""

    name: str
    mode: str
    keeps: tuple[str, ...]


@dataclass(frozen=True)
class Recompute:
    """What is recomputed in backward. ``str()`` is the mode, or counts of layers by mode."""

    mode: str
    granularity: str
    layers: tuple[LayerRun, ...] = ()
    """Only for mode ``per-layer``."""
    stages: tuple[StageRecompute, ...] = ()
    submodules: tuple[SubmoduleRecompute, ...] = ()
    _text: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class Swap:
    """What is swapped to host memory."""

    bytes_per_device: int


@dataclass(frozen=True)
class Worst:
    """The rank that needs most memory, and when."""

    rank: int
    stage: int
    phase: str


@dataclass(frozen=True)
class StagePeak:
    """The peak of one stage and the phase it falls into."""

    stage: int
    peak_bytes: int
    phase: str


@dataclass(frozen=True, repr=False)
class Candidate:
    """One layout under one recompute, priced. ``str()`` works it out term by term."""

    layout: Layout
    recompute: Recompute
    swap: Swap
    fits: bool
    step_s: float
    tokens_per_s_per_device: float
    mfu: float
    """Percent; recompute is no merit."""
    peak_bytes: int
    """Allocated, worst rank."""
    peak_reserved_bytes: tuple[int, int]
    """What the allocator is expected to hold for it: low, high."""
    capacity_bytes: int
    limit_bytes: int
    """Capacity less the margin and what is taken outside the allocator; ``fits`` is
    ``peak_bytes <= limit_bytes``."""
    worst: Worst
    memory: Mapping[str, int]
    """Bytes of the worst rank by term; zero terms are left out. Sums to ``peak_bytes``."""
    ranks: tuple[StagePeak, ...]
    time: Mapping[str, float]
    """Seconds of the step by term; zero terms are left out. Sums to ``step_s``."""
    hidden: Mapping[str, float]
    """Work hidden behind other work, under the same names."""
    rank: int | None = None
    """1 is best; None: not ranked."""
    outside_bytes: int | None = None
    """Taken outside the allocator, beside the margin; None: not known to be large."""
    selective_note: str | None = None
    shortfall_bytes: int | None = None
    """Of a nearest miss: what lacks."""
    remedy: str | None = None
    """Of a nearest miss: the smallest change that would fit."""
    _text: str = field(default="", compare=False)
    _dict: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The candidate as the JSON holds it; a copy."""
        return _copy(self._dict)

    def to_json(self) -> str:
        return json.dumps(self._dict, indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        rank = "" if self.rank is None else f" {self.rank}:"
        fit = "" if self.fits else ", does not fit"
        return (
            f"<restow.Candidate{rank} {self.layout}, recompute {self.recompute}, "
            f"{self.step_s:.4g} s, {_html.gib(self.peak_bytes)} GiB{fit}>"
        )

    def _repr_html_(self) -> str:
        return _html.candidates([("", self)])


@dataclass(frozen=True)
class JobName:
    """Which job a report answers."""

    digest: str
    name: str


@dataclass(frozen=True)
class CalibrationName:
    """The constants behind a report, and the number of measured runs behind them."""

    id: str
    rows: int


@dataclass(frozen=True)
class Counts:
    """Candidates of a search: total = priced + refused + bounded."""

    total: int
    priced: int
    refused: int
    bounded: int


@dataclass(frozen=True)
class Example:
    """The first candidate that a rule refused."""

    layout: Layout
    recompute: Recompute
    numbers: Mapping[str, int]
    detail: str


@dataclass(frozen=True)
class Refusal:
    """A rule and how many candidates it refused."""

    rule: str
    count: int
    example: Example


@dataclass(frozen=True)
class Over:
    """The largest term of what does not fit, and the bytes over the limit."""

    term: str
    bytes: int


@dataclass(frozen=True)
class NearestChange:
    """A small change that would fit, and its price."""

    change: str
    candidate: Candidate


@dataclass(frozen=True)
class Difference:
    """b less a by term; terms that do not differ are left out."""

    memory: Mapping[str, int]
    time: Mapping[str, float]


@dataclass(frozen=True)
class Note:
    """A field that was read without being priced, or that nobody knows."""

    field: str
    reason: str | None = None


@dataclass(frozen=True, repr=False, kw_only=True)
class Report:
    """An answer: JSON as the command prints it, and its text."""

    _json: str
    _text: str

    def to_json(self) -> str:
        """The bytes that the command prints with ``--json``."""
        return self._json

    def to_dict(self) -> dict[str, Any]:
        """The same, parsed; a copy."""
        document: dict[str, Any] = json.loads(self._json)
        return document

    def __str__(self) -> str:
        return self._text.rstrip("\n") or repr(self)

    def __repr__(self) -> str:
        return f"<restow.{type(self).__name__}{self._about()}>"

    def _about(self) -> str:
        return ""

    def _rows(self) -> list[tuple[str, Candidate]]:
        return []

    def _html_title(self) -> str:
        return ""

    def _repr_html_(self) -> str:
        return _html.candidates(self._rows(), title=self._html_title())


class _WithFrame(Report):
    """A report about candidates."""

    _label: ClassVar[str | None] = None
    """Name of the column that tells candidates apart; None: no such column."""

    def _frame_rows(self) -> list[tuple[str, Candidate]]:
        return self._rows()

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per candidate; the columns are those of the command's ``--csv``.

        Raises ImportError where pandas is not installed.
        """
        return _frame.dataframe(self._frame_rows(), self._label)


@dataclass(frozen=True, repr=False, kw_only=True)
class PlanReport(_WithFrame):
    """Answer of :func:`restow.plan`: candidates ranked by step time, under each rank's memory."""

    version: str
    job: JobName
    model: Model
    calibration: CalibrationName
    complete: bool
    elapsed_s: float
    """The only figure that differs between equal runs."""
    candidates: Counts
    refused: list[Refusal]
    current: Candidate | None
    """What the job runs with today."""
    current_note: str | None
    """Why there is no current candidate, or which rule it breaks."""
    ranked: list[Candidate]
    """Best first; empty where nothing fits."""
    pareto: list[int]
    """Indexes into ``ranked``: nothing is both faster and smaller."""
    leaner: list[Candidate]
    """The rest of the Pareto front: slower than ``ranked``, less memory."""
    nearest_misses: list[Candidate]
    """Where nothing fits: what lacks least, with ``shortfall_bytes`` and ``remedy``."""

    def _about(self) -> str:
        best = f", best {self.ranked[0].step_s:.4g} s" if self.ranked else ", nothing fits"
        return f" of {self.job.name}: {len(self.ranked)} ranked{best}"

    def _rows(self) -> list[tuple[str, Candidate]]:
        rows = [
            (f"{c.rank}{'*' if index in self.pareto else ''}", c)
            for index, c in enumerate(self.ranked)
        ]
        rows += [("miss", c) for c in self.nearest_misses]
        return rows + ([("now", self.current)] if self.current is not None else [])

    def _frame_rows(self) -> list[tuple[str, Candidate]]:
        return [("", candidate) for candidate in self.ranked]

    def _html_title(self) -> str:
        counts = self.candidates
        return (
            f"{self.job.name}: {self.model.name}, {counts.total:,} candidates, "
            f"{counts.refused:,} refused" + ("" if self.complete else ", interrupted")
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class PriceReport(_WithFrame):
    """Answer of :func:`restow.price`. What is asked most of its candidate is here, too."""

    version: str
    job: JobName
    model: Model
    calibration: CalibrationName
    candidate: Candidate
    rule: str | None
    """A rule it breaks; a search would refuse it."""
    detail: str | None
    numbers: Mapping[str, int]

    @property
    def layout(self) -> Layout:
        return self.candidate.layout

    @property
    def recompute(self) -> Recompute:
        return self.candidate.recompute

    @property
    def fits(self) -> bool:
        return self.candidate.fits

    @property
    def step_s(self) -> float:
        return self.candidate.step_s

    @property
    def mfu(self) -> float:
        return self.candidate.mfu

    @property
    def peak_bytes(self) -> int:
        return self.candidate.peak_bytes

    @property
    def memory(self) -> Mapping[str, int]:
        return self.candidate.memory

    @property
    def time(self) -> Mapping[str, float]:
        return self.candidate.time

    def _about(self) -> str:
        return f" of {self.job.name}: {self.candidate!r}"

    def _rows(self) -> list[tuple[str, Candidate]]:
        return [("", self.candidate)]

    def _html_title(self) -> str:
        rule = "" if self.rule is None else f"; a search refuses it: {self.rule}: {self.detail}"
        return f"{self.job.name}: {self.model.name}{rule}"


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation(_WithFrame):
    """Answer of :func:`restow.explain`: why a candidate wins, loses or is refused."""

    _label: ClassVar[str | None] = "change"

    version: str
    job: JobName
    candidate: Candidate | None
    """None where a rule makes it meaningless to price; ``layout`` and ``recompute`` say which."""
    layout: Layout
    recompute: Recompute
    verdict: str
    """``wins``, ``loses`` or ``refused``."""
    summary: str
    rule: str | None
    detail: str | None
    numbers: Mapping[str, int]
    over: Over | None
    best: Candidate | None
    nearest: list[NearestChange]

    def _about(self) -> str:
        return f" of {self.job.name}: {self.layout}, recompute {self.recompute} {self.verdict}"

    def _frame_rows(self) -> list[tuple[str, Candidate]]:
        own = [] if self.candidate is None else [("", self.candidate)]
        return own + [(near.change, near.candidate) for near in self.nearest]

    def _rows(self) -> list[tuple[str, Candidate]]:
        own = [] if self.candidate is None else [("asked", self.candidate)]
        own += [] if self.best is None else [("best", self.best)]
        return own + [(near.change, near.candidate) for near in self.nearest]

    def _html_title(self) -> str:
        return f"{self.job.name}: {self.verdict}. {self.summary}"


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(_WithFrame):
    """Answer of :func:`restow.compare`: two candidates term by term."""

    _label: ClassVar[str | None] = "side"

    version: str
    job: JobName
    a: Candidate
    b: Candidate
    a_name: str | None
    b_name: str | None
    difference: Difference

    def _about(self) -> str:
        return (
            f" of {self.job.name}: {self.a_name} {self.a.step_s:.4g} s, "
            f"{self.b_name} {self.b.step_s:.4g} s"
        )

    def _frame_rows(self) -> list[tuple[str, Candidate]]:
        return [("a", self.a), ("b", self.b)]

    def _rows(self) -> list[tuple[str, Candidate]]:
        return [(f"a: {self.a_name}", self.a), (f"b: {self.b_name}", self.b)]

    def _html_title(self) -> str:
        return self.job.name

    def _repr_html_(self) -> str:
        return super()._repr_html_() + _html.differences(self.a, self.b, self.difference)


@dataclass(frozen=True, repr=False, kw_only=True)
class Model(Report):
    """What is read of a model (``restow.model/1``)."""

    name: str
    family: str
    parameters: int
    """Exact: embeddings included, tied tables once, multi-token prediction apart."""
    active_parameters: int
    mtp_parameters: int | None
    layers: int
    hidden: int
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    ffn: int | None
    vocab: int | None
    experts: int | None
    experts_per_token: int | None
    expert_ffn: int | None
    shared_experts: int | None
    shared_ffn: int | None
    first_dense: int | None
    mla: Mapping[str, int] | None
    tied: bool
    mtp_layers: int | None
    mtp_kind: str | None
    context: int | None
    head_bias: bool
    positions: int | None
    final_norm_bias: bool
    other_parameters: int | None
    projector_parameters: int | None
    kinds: list[Mapping[str, Any]]
    order: list[Mapping[str, Any]]
    submodules: list[Mapping[str, Any]]
    ignored: list[Note]
    unknown: list[Note]

    def _about(self) -> str:
        return f" {self.name}: {self.parameters:,} parameters"

    def _repr_html_(self) -> str:
        return _html.preformatted(str(self))


@dataclass(frozen=True)
class Level:
    """A level of the interconnect; ``size`` is None on the last, which covers all devices."""

    name: str
    bytes_per_s: float
    size: int | None = None
    latency_s: float | None = None


@dataclass(frozen=True, repr=False, kw_only=True)
class Device(Report):
    """A device preset with the source of its figures (``restow.device/1``)."""

    name: str
    silicon: str
    peak_flop_per_s: Mapping[str, float]
    memory_bytes: int
    memory_bytes_per_s: float
    host_link_bytes_per_s: float | None
    host_memory_bytes: int | None
    compute_units: int | None
    full_mesh: bool
    per_node: int
    levels: list[Level]
    source: str

    def _about(self) -> str:
        return f" {self.name}: {_html.gib(self.memory_bytes)} GiB"

    def _repr_html_(self) -> str:
        return _html.preformatted(str(self))


def _copy(document: Mapping[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(document))
    return copy


def _layout(document: Mapping[str, Any], text: str) -> Layout:
    names = set(Layout.__dataclass_fields__) - {"_text"}
    return Layout(**{k: v for k, v in document.items() if k in names}, _text=text)


def _recompute(document: Mapping[str, Any], text: str) -> Recompute:
    return Recompute(
        mode=document["mode"],
        granularity=document["granularity"],
        layers=tuple(LayerRun(run["layers"], run["mode"]) for run in document.get("layers", ())),
        stages=tuple(
            StageRecompute(s["layers"], s["off"], s["selective"], s["full"], s["swapped"])
            for s in document.get("stages", ())
        ),
        submodules=tuple(
            SubmoduleRecompute(part["name"], part["mode"], tuple(part["keeps"]))
            for part in document.get("submodules", ())
        ),
        _text=text,
    )


def _candidate(document: Mapping[str, Any], texts: _restow.CandidateTexts) -> Candidate:
    low, high = document["peak_reserved_bytes"]
    worst = document["worst"]
    return Candidate(
        layout=_layout(document["layout"], texts.layout),
        recompute=_recompute(document["recompute"], texts.recompute),
        swap=Swap(document["swap"]["bytes_per_device"]),
        fits=document["fits"],
        step_s=document["step_s"],
        tokens_per_s_per_device=document["tokens_per_s_per_device"],
        mfu=document["mfu"],
        peak_bytes=document["peak_bytes"],
        peak_reserved_bytes=(low, high),
        capacity_bytes=document["capacity_bytes"],
        limit_bytes=document["limit_bytes"],
        worst=Worst(worst["rank"], worst["stage"], worst["phase"]),
        memory=document["memory"],
        ranks=tuple(
            StagePeak(peak["stage"], peak["peak_bytes"], peak["phase"])
            for peak in document["ranks"]
        ),
        time=document["time"],
        hidden=document["hidden"],
        rank=document.get("rank"),
        outside_bytes=document.get("outside_bytes"),
        selective_note=document.get("selective_note"),
        shortfall_bytes=document.get("shortfall_bytes"),
        remedy=document.get("remedy"),
        _text=texts.summary,
        _dict=document,
    )


def _candidates(documents: Sequence[Any], texts: _Texts, place: str) -> list[Candidate]:
    return [_candidate(one, texts[f"{place}/{index}"]) for index, one in enumerate(documents)]


def _optional(document: Mapping[str, Any], place: str, texts: _Texts) -> Candidate | None:
    one = document.get(place)
    return None if one is None else _candidate(one, texts[place])


def _refusal(document: Mapping[str, Any], texts: _restow.CandidateTexts) -> Refusal:
    example = document["example"]
    return Refusal(
        document["rule"],
        document["count"],
        Example(
            _layout(example["layout"], texts.layout),
            _recompute(example["recompute"], texts.recompute),
            example["numbers"],
            example["detail"],
        ),
    )


def _job(document: Mapping[str, Any]) -> JobName:
    return JobName(document["job"]["digest"], document["job"]["name"])


def _calibration(document: Mapping[str, Any]) -> CalibrationName:
    return CalibrationName(document["calibration"]["id"], document["calibration"]["rows"])


def _notes(documents: Sequence[Mapping[str, Any]]) -> list[Note]:
    return [Note(note["field"], note.get("reason")) for note in documents]


def _flat(kind: type[_R], document: Mapping[str, Any], **others: Any) -> _R:
    """A report whose remaining fields are the JSON's own; absent ones are None or false."""
    flags = {"head_bias", "final_norm_bias", "full_mesh"}
    for name in kind.__dataclass_fields__:
        if name not in others:
            others[name] = document.get(name, False if name in flags else None)
    return kind(**others)


def _model(document: Mapping[str, Any], text: str, source: str | None = None) -> Model:
    return _flat(
        Model,
        document,
        _json=json.dumps(document, indent=2) + "\n" if source is None else source,
        _text=text,
        ignored=_notes(document["ignored"]),
        unknown=_notes(document["unknown"]),
    )


def model_of(answer: _restow.Answer) -> Model:
    return _model(json.loads(answer.json), answer.text, answer.json)


def device_of(answer: _restow.Answer) -> Device:
    document = json.loads(answer.json)
    levels = [
        Level(level["name"], level["bytes_per_s"], level.get("size"), level.get("latency_s"))
        for level in document["levels"]
    ]
    return _flat(Device, document, _json=answer.json, _text=answer.text, levels=levels)


def plan_report_of(answer: _restow.Answer) -> PlanReport:
    document, texts = json.loads(answer.json), answer.candidates
    counts = document["candidates"]
    return PlanReport(
        _json=answer.json,
        _text=answer.text,
        version=document["version"],
        job=_job(document),
        model=_model(document["model"], ""),
        calibration=_calibration(document),
        complete=document["complete"],
        elapsed_s=document["elapsed_s"],
        candidates=Counts(
            counts["total"], counts["priced"], counts["refused"], counts["bounded"]
        ),
        refused=[
            _refusal(one, texts[f"refused/{index}"])
            for index, one in enumerate(document["refused"])
        ],
        current=_optional(document, "current", texts),
        current_note=document.get("current_note"),
        ranked=_candidates(document["ranked"], texts, "ranked"),
        pareto=document["pareto"],
        leaner=_candidates(document["leaner"], texts, "leaner"),
        nearest_misses=_candidates(document["nearest_misses"], texts, "nearest_misses"),
    )


def price_report_of(answer: _restow.Answer) -> PriceReport:
    document = json.loads(answer.json)
    return PriceReport(
        _json=answer.json,
        _text=answer.text,
        version=document["version"],
        job=_job(document),
        model=_model(document["model"], ""),
        calibration=_calibration(document),
        candidate=_candidate(document["candidate"], answer.candidates["candidate"]),
        rule=document.get("rule"),
        detail=document.get("detail"),
        numbers=document.get("numbers", {}),
    )


def explanation_of(answer: _restow.Answer) -> Explanation:
    document, texts = json.loads(answer.json), answer.candidates
    own, own_texts = document["candidate"], texts["candidate"]
    over = document.get("over")
    nearest = _candidates([near["candidate"] for near in document["nearest"]], texts, "nearest")
    return Explanation(
        _json=answer.json,
        _text=answer.text,
        version=document["version"],
        job=_job(document),
        candidate=_candidate(own, own_texts) if "step_s" in own else None,
        layout=_layout(own["layout"], own_texts.layout),
        recompute=_recompute(own["recompute"], own_texts.recompute),
        verdict=document["verdict"],
        summary=document["summary"],
        rule=document.get("rule"),
        detail=document.get("detail"),
        numbers=document.get("numbers", {}),
        over=None if over is None else Over(over["term"], over["bytes"]),
        best=_optional(document, "best", texts),
        nearest=[
            NearestChange(near["change"], candidate)
            for near, candidate in zip(document["nearest"], nearest)
        ],
    )


def comparison_of(answer: _restow.Answer) -> Comparison:
    document, texts = json.loads(answer.json), answer.candidates
    difference = document["difference"]
    return Comparison(
        _json=answer.json,
        _text=answer.text,
        version=document["version"],
        job=_job(document),
        a=_candidate(document["a"], texts["a"]),
        b=_candidate(document["b"], texts["b"]),
        a_name=document.get("a_name"),
        b_name=document.get("b_name"),
        difference=Difference(difference["memory"], difference["time"]),
    )
