"""validate and calibrate from Python."""

import json

import pytest
import restow
from conftest import LLAMA, ROOT, command

RUNS = ROOT / "data" / "measured-runs.csv"


def test_validate_gives_what_the_command_prints():
    report = restow.validate(RUNS)
    assert report.to_json() == command("validate", RUNS, "--json")
    assert report.rows == 42
    assert report.memory["n"] + report.time["n"] == len(report.scores)
    assert {group["source"] for group in report.groups} >= {"simumax", "bloom"}
    assert "42 measured runs" in str(report)


def test_validate_groups_as_asked():
    devices = {group["device"] for group in restow.validate(RUNS, by="device").groups}
    assert "h100-sxm" in devices
    with pytest.raises(restow.InputError, match="source, model and device"):
        restow.validate(RUNS, by="colour")


def test_a_run_is_shown_whole():
    run = restow.validate(RUNS, row="simumax-001")
    assert isinstance(run, restow.RunReport)
    assert [rank["measured"] for rank in run.ranks] == [66.55, 62.97]
    assert "dp: 4" in run.job
    with pytest.raises(restow.InputError, match="did you mean 'simumax-001'"):
        restow.validate(RUNS, row="simumax-01")


def test_reports_show_in_notebooks_and_as_tables():
    report = restow.validate(RUNS)
    assert report._repr_html_().count("<tr>") == 1 + len(report.worst)
    frame = report.to_dataframe()
    assert list(frame.columns)[:2] == ["id", "kind"]
    assert len(frame) == len(report.scores)


def test_a_wrong_table_says_where(tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("id,tp\nx-1,2\nx-1,2\n")
    with pytest.raises(restow.InputError) as caught:
        restow.validate(table)
    assert (caught.value.file, caught.value.line) == (str(table), 3)


def test_calibrate_writes_constants_whose_name_appears_in_reports(tmp_path):
    out = tmp_path / "ours.yaml"
    fitted = restow.calibrate(RUNS, out=out)
    assert fitted.id == "ours"
    assert [left["by"] for left in fitted.left_out] == ["model", "source"]
    assert len(fitted.to_dataframe()) == len(fitted.constants)
    plan = restow.plan(LLAMA, calibration=out)
    assert json.loads(plan.to_json())["calibration"]["id"] == "ours"


def test_calibrate_refuses_runs_that_determine_nothing(tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("\n".join(command("calibrate", "--template").splitlines()[:2]) + "\n")
    with pytest.raises(restow.InputError, match="determine none"):
        restow.calibrate(table, out=tmp_path / "c.yaml")
    assert not (tmp_path / "c.yaml").exists()
