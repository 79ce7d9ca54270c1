"""Both faces give the same answer: what Python returns is what the command prints."""

import json
import re

import pytest
import restow
from conftest import EXAMPLES, FITTING, LLAMA, TOO_LARGE, command, command_json, dimension_words


def without_time(report):
    return {key: value for key, value in report.items() if key != "elapsed_s"}


def without_duration(text):
    return re.sub(r" in [0-9.]+ (?:ms|us|s):", " in T:", re.sub(r"\s+", " ", text.strip()))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_plan_of_every_example_equals_the_commands(path):
    report = restow.plan(path)
    assert without_time(report.to_dict()) == without_time(command_json("plan", path))
    assert report.elapsed_s > 0
    assert [c.to_dict() for c in report.ranked] == report.to_dict()["ranked"]
    assert without_duration(str(report)) == without_duration(command("plan", path))


def test_json_text_is_the_commands_byte_for_byte():
    report = restow.price(LLAMA, **FITTING)
    assert report.to_json() == command("price", LLAMA, *dimension_words(FITTING), "--json")


@pytest.mark.parametrize("dimensions", [FITTING, TOO_LARGE], ids=["fits", "too large"])
def test_price_and_explain_equal_the_commands(dimensions):
    words = dimension_words(dimensions)
    price = restow.price(str(LLAMA), **dimensions)
    assert price.to_dict() == command_json("price", LLAMA, *words)
    assert str(price) == command("price", LLAMA, *words).rstrip("\n")
    explanation = restow.explain(LLAMA, **dimensions)
    assert explanation.to_dict() == command_json("explain", LLAMA, *words)
    assert str(explanation) == command("explain", LLAMA, *words).rstrip("\n")


def test_a_candidate_that_a_rule_refuses_is_explained_without_a_price():
    explanation = restow.explain(LLAMA, tp=7, pp=1)
    assert explanation.to_dict() == command_json("explain", LLAMA, "tp=7", "pp=1")
    assert explanation.verdict == "refused"
    assert (explanation.candidate is None) == ("step_s" not in explanation.to_dict()["candidate"])
    assert explanation.rule and explanation.detail
    assert explanation.layout.tp == 7
    assert str(explanation.layout).startswith("tp7")


@pytest.mark.parametrize("sides", [(1, "current"), (2, "tp=8 pp=4 recompute=full"), ("1", 3)])
def test_compare_equals_the_commands(sides):
    comparison = restow.compare(LLAMA, *sides)
    assert comparison.to_dict() == command_json("compare", LLAMA, *sides)
    assert str(comparison) == command("compare", LLAMA, *sides).rstrip("\n")


def test_a_side_of_a_comparison_may_be_a_dict():
    text = restow.compare(LLAMA, 1, "tp=8 pp=4 recompute=full")
    assert restow.compare(LLAMA, 1, {"tp": 8, "pp": 4, "recompute": "full"}) == text


def test_options_are_the_commands():
    words = ("--top", 3, "--margin", "4GiB", "--threads", 1, "tp=4,8", "sp=true")
    report = restow.plan(LLAMA, top=3, margin="4GiB", threads=1, tp=[4, 8], sp=True)
    assert without_time(report.to_dict()) == without_time(command_json("plan", LLAMA, *words))


def test_models_devices_and_schemas_equal_the_commands():
    assert [m.to_dict() for m in restow.models()] == command_json("models")
    assert restow.models("deepseek-v3").to_dict() == command_json("models", "deepseek-v3")
    assert [d.to_dict() for d in restow.devices()] == command_json("devices")
    assert restow.devices("h100-sxm").to_dict() == command_json("devices", "h100-sxm")
    assert restow.schema() == command("schema").split()
    for name in restow.schema():
        assert restow.schema(name) == json.loads(command("schema", name))


def test_the_version_is_the_commands():
    assert command("--version") == f"restow {restow.__version__}\n"
