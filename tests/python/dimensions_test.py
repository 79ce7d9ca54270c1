"""Keyword arguments are the dimensions of the command."""

import pytest
import restow
from conftest import LLAMA, command_json


def digest(**dimensions):
    return restow.Job.from_file(LLAMA).with_(**dimensions).digest


@pytest.mark.parametrize("value, word", [
    (8, "tp=8"), ("8", "tp=8"), ([4, 8], "tp=4,8"), ((4, 8), "tp=4,8"), (range(1, 3), "tp=1,2"),
    ("4,8", "tp=4,8"), ("auto", "tp=auto"), ([4], "tp=4"),
])
def test_a_value_a_list_or_auto(value, word):
    assert digest(tp=value) == command_json("plan", LLAMA, word)["job"]["digest"]


@pytest.mark.parametrize("value, word", [(True, "sp=true"), (False, "sp=false"),
                                         ([True, False], "sp=true,false"), ("auto", "sp=auto")])
def test_booleans_are_written_as_the_command_has_them(value, word):
    assert digest(sp=value) == command_json("plan", LLAMA, word)["job"]["digest"]


def test_words_and_lists_of_words():
    for value, word in ((["off", "full"], "recompute=off,full"), ("auto", "recompute=auto")):
        assert digest(recompute=value) == command_json("plan", LLAMA, word)["job"]["digest"]


def test_none_states_nothing():
    assert digest(tp=None) == restow.Job.from_file(LLAMA).digest


def test_several_in_the_order_they_are_written():
    dimensions = {"pp": 4, "tp": [4, 8], "schedule": "1f1b", "micro_batch": 1, "zero": 1}
    words = ["pp=4", "tp=4,8", "schedule=1f1b", "micro_batch=1", "zero=1"]
    assert digest(**dimensions) == command_json("plan", LLAMA, *words)["job"]["digest"]


def test_an_unknown_dimension_is_refused_with_the_nearest():
    with pytest.raises(restow.InputError, match="did you mean 'tp'"):
        restow.plan(LLAMA, tpp=8)


@pytest.mark.parametrize("dimensions", [{"tp": 0}, {"tp": "many"}, {"tp": []}, {"tp": True},
                                        {"tp": 2.5}, {"sp": "perhaps"}, {"recompute": "fulll"},
                                        {"tp": ["auto", 2]}, {"tp": {"at": 2}}, {"tp": ""}])
def test_a_value_that_makes_no_sense_is_refused_by_name(dimensions):
    name = next(iter(dimensions))
    with pytest.raises(restow.InputError, match=name) as caught:
        restow.plan(LLAMA, **dimensions)
    assert caught.value.line is None


def test_price_wants_one_value_for_each():
    with pytest.raises(restow.InputError, match="tp"):
        restow.price(LLAMA, tp=[4, 8], pp=4, recompute="full")


def test_what_a_later_version_brings_is_unsupported():
    for dimensions in ({"swap": "auto"}, {"granularity": "layer"}, {"schedule": "zb-v"},
                       {"cp_kind": "hybrid"}):
        with pytest.raises(restow.Unsupported, match="not available in this version"):
            restow.plan(LLAMA, **dimensions)
