"""Reports: attributes, texts, HTML, tables, copies."""

import csv
import html.parser
import io
import json
import pickle
import sys

import pytest
import restow
from conftest import EXAMPLES, FITTING, LLAMA, TOO_LARGE, command
from restow import _reports


@pytest.fixture(scope="module")
def report():
    return restow.plan(LLAMA)


def test_attributes_are_the_jsons(report):
    best, document = report.ranked[0], report.to_dict()["ranked"][0]
    assert best.rank == 1
    assert best.layout.tp == document["layout"]["tp"]
    assert best.memory["weights"] == document["memory"]["weights"]
    assert best.step_s == document["step_s"]
    assert best.worst.phase == document["worst"]["phase"]
    assert sum(best.memory.values()) == best.peak_bytes
    assert sum(best.time.values()) == pytest.approx(best.step_s, rel=1e-9)
    assert max(stage.peak_bytes for stage in best.ranks) == best.peak_bytes
    assert report.pareto == report.to_dict()["pareto"]
    assert report.candidates.total == (
        report.candidates.priced + report.candidates.refused + report.candidates.bounded)
    assert report.refused[0].example.layout.tp >= 1
    assert report.model.parameters == 70_553_706_496
    assert report.calibration.rows > 0


# A class and the place of its object in the schemas. What the JSON keeps flat is listed with it.
SHAPES = [
    (_reports.PlanReport, "plan-report", None), (_reports.PriceReport, "price", None),
    (_reports.Explanation, "explanation", None), (_reports.Comparison, "comparison", None),
    (_reports.Model, "model", "model"), (_reports.Device, "device", None),
    (_reports.Candidate, "plan-report", "candidate"), (_reports.Candidate, "plan-report", "miss"),
    (_reports.Layout, "plan-report", "layout"), (_reports.Recompute, "plan-report", "recompute"),
]


@pytest.mark.parametrize("kind, schema, place", SHAPES,
                         ids=[f"{kind.__name__}-{place or schema}" for kind, schema, place in SHAPES])
def test_every_key_of_the_published_schema_is_an_attribute(kind, schema, place):
    shape = restow.schema(schema)
    shape = shape["$defs"][place] if place else shape
    missing = set(shape["properties"]) - {"schema"} - set(kind.__dataclass_fields__)
    assert missing == set()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_attribute_holds_what_the_json_holds(path):
    for one in restow.plan(path, top=3).ranked:
        document = one.to_dict()
        for name, value in document["layout"].items():
            assert getattr(one.layout, name) == value
        for name in ("fits", "step_s", "mfu", "peak_bytes", "limit_bytes", "memory", "time",
                     "hidden", "rank", "capacity_bytes", "tokens_per_s_per_device"):
            assert getattr(one, name) == document[name]
        assert [vars_of(s) for s in one.recompute.stages] == document["recompute"]["stages"]
        assert [vars_of(s) for s in one.ranks] == document["ranks"]


def vars_of(value):
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def test_a_candidate_prints_as_a_summary(report):
    text = str(report.ranked[0])
    assert text.startswith("rank      1\nlayout    ")
    for word in ("recompute", "tokens/s/device", "MFU", "fits", "peak", "weights", "matmul", "stage"):
        assert word in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_reprs_are_one_short_line(report):
    values = [report, report.ranked[0], restow.price(LLAMA, **TOO_LARGE), restow.models("llama3-70b"),
              restow.compare(LLAMA, 1, "current"), restow.explain(LLAMA, **TOO_LARGE),
              restow.devices("h100-sxm"), report.model, restow.Job.from_file(LLAMA)]
    for value in values:
        assert repr(value).startswith("<restow.")
        assert "\n" not in repr(value) and len(repr(value)) < 200
    assert "does not fit" in repr(values[2])


def test_price_passes_on_what_its_candidate_holds():
    price = restow.price(LLAMA, **FITTING)
    one = price.candidate
    assert (price.layout, price.recompute, price.fits, price.step_s, price.mfu, price.peak_bytes,
            price.memory, price.time) == (one.layout, one.recompute, one.fits, one.step_s, one.mfu,
                                          one.peak_bytes, one.memory, one.time)


def test_reports_are_frozen_and_their_dicts_are_copies(report):
    with pytest.raises(AttributeError):
        report.ranked = []
    with pytest.raises(AttributeError):
        report.ranked[0].layout.tp = 2
    copy = report.to_dict()
    copy["ranked"].clear()
    own = report.ranked[0].to_dict()
    own["layout"]["tp"] = 0
    assert report.to_dict()["ranked"]
    assert report.ranked[0].to_dict()["layout"]["tp"] > 0
    assert json.loads(report.ranked[0].to_json()) == report.ranked[0].to_dict()


def test_reports_survive_pickling(report):
    for value in (report, restow.price(LLAMA, **FITTING), restow.explain(LLAMA, **TOO_LARGE),
                  restow.compare(LLAMA, 1, "current"), restow.devices("h100-sxm")):
        back = pickle.loads(pickle.dumps(value))
        assert back == value
        assert (str(back), back._repr_html_()) == (str(value), value._repr_html_())


class Tags(html.parser.HTMLParser):
    """Checks that elements nest, and keeps their names and the text."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parsed(text):
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def test_html_holds_a_row_for_every_candidate(report):
    tags = parsed(report._repr_html_())
    # The heading, the ranked ones, and what runs today.
    assert tags.seen.count("tr") == 1 + len(report.ranked) + 1
    for one in report.ranked:
        assert str(one.layout) in tags.text
    assert parsed(report.ranked[0]._repr_html_()).seen.count("tr") == 2
    comparison = restow.compare(LLAMA, 1, "current")
    terms = len(comparison.difference.memory) + len(comparison.difference.time)
    assert parsed(comparison._repr_html_()).seen.count("tr") == 3 + 1 + terms
    for value in (restow.explain(LLAMA, **TOO_LARGE), restow.models("llama3-70b"), report.model,
                  restow.devices("h100-sxm"), restow.price(LLAMA, **FITTING)):
        assert parsed(value._repr_html_()).text


def test_html_escapes_what_users_named(llama_dict):
    evil = '<script>alert("x")</script>&'
    llama_dict["name"] = evil
    for value in (restow.plan(llama_dict), restow.price(llama_dict, **FITTING),
                  restow.explain(llama_dict, **FITTING), restow.compare(llama_dict, 1, "current")):
        text = value._repr_html_()
        assert "<script" not in text
        assert parsed(text).text.count(evil) >= 1


def from_csv(text):
    return list(csv.reader(io.StringIO(text)))


def test_dataframes_hold_what_the_commands_csv_holds(report):
    comparison = restow.compare(LLAMA, 1, "current")
    explanation = restow.explain(LLAMA, **TOO_LARGE)
    words = [f"{name}={value}" for name, value in TOO_LARGE.items()]
    for value, arguments in ((report, ["plan", LLAMA]), (comparison, ["compare", LLAMA, 1, "current"]),
                             (explanation, ["explain", LLAMA, *words])):
        rows = from_csv(command(*arguments, "--csv"))
        frame = value.to_dataframe()
        assert list(frame.columns) == rows[0]
        assert len(frame) == len(rows) - 1
        for (_, own), row in zip(frame.iterrows(), rows[1:]):
            for name, written in zip(rows[0], row):
                assert same(own[name], written), name


def same(value, written):
    import pandas
    if written == "":
        return value == "" or pandas.isna(value)
    if isinstance(value, str):
        return value == written
    if str(value) in ("True", "False"):
        return str(value).lower() == written
    return float(value) == float(written)


def test_a_plan_in_which_nothing_fits_has_an_empty_table():
    frame = restow.plan(LLAMA, margin="70GiB").to_dataframe()
    assert len(frame) == 0
    assert "step_s" in frame.columns


def test_without_pandas_the_table_says_what_to_install(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        report.to_dataframe()


def test_pandas_is_not_imported_until_a_table_is_asked_for():
    from conftest import python
    run = python("import sys, restow; restow.plan('examples/llama3-70b-64xh100.yaml');"
                 "print('pandas' in sys.modules, 'numpy' in sys.modules)")
    assert run.stdout == "False False\n", run.stderr
