"""Jobs from files, dicts and other jobs."""

import json
import pathlib
import types
import warnings

import pytest
import restow
from conftest import FITTING, LLAMA, command_json

# Llama 3 70B as Hugging Face has it.
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def test_a_job_knows_its_name_and_the_commands_digest():
    job = restow.Job.from_file(LLAMA)
    assert job.name == "llama3-70b-64xh100"
    assert job.digest == command_json("plan", LLAMA)["job"]["digest"]
    assert job.digest in repr(job)


def test_a_dict_plans_like_the_file_it_mirrors(llama_dict):
    of_file = restow.plan(LLAMA)
    for job in (llama_dict, restow.Job.from_dict(llama_dict)):
        report = restow.plan(job)
        assert report.ranked == of_file.ranked
        assert report.current == of_file.current
        assert report.job.name == of_file.job.name


def test_a_job_plans_like_the_file_it_was_read_from():
    job = restow.Job.from_file(str(LLAMA))
    assert restow.plan(job).ranked == restow.plan(LLAMA).ranked
    assert restow.plan(job).job.digest == job.digest


def test_with_narrows_a_copy():
    job = restow.Job.from_file(LLAMA)
    narrow = job.with_(tp=[4, 8], recompute="full")
    assert narrow.digest == command_json("plan", LLAMA, "tp=4,8", "recompute=full")["job"]["digest"]
    assert job.digest != narrow.digest
    assert {c.layout.tp for c in restow.plan(narrow).ranked} <= {4, 8}
    assert {str(c.recompute) for c in restow.plan(narrow).ranked} == {"full"}
    assert {c.layout.tp for c in restow.plan(narrow, tp=4).ranked} == {4}
    assert narrow.with_(tp=8).with_(tp=[4, 8], recompute="full").digest == narrow.digest


def test_a_narrowed_job_exports_its_best(tmp_path):
    job = restow.Job.from_file(LLAMA).with_(tp=[4, 8])
    paths = restow.export(job, out=tmp_path)
    assert json.loads(paths[0].read_text())["job"]["digest"] == job.digest


def test_explain_holds_the_candidate_against_the_jobs_whole_search():
    job = restow.Job.from_file(LLAMA).with_(tp=8)
    explanation = restow.explain(job, pp=4, recompute="full")
    assert explanation.layout.tp == 8
    assert explanation.best is not None and explanation.best.layout.tp == 8


def test_a_file_that_changes_does_not_change_the_job(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(LLAMA.read_text())
    job = restow.Job.from_file(path)
    path.write_text("nonsense")
    assert restow.price(job, tp=8, pp=4, recompute="full").fits


def test_the_margin_of_a_job_stands_unless_the_call_states_one():
    job = restow.Job.from_file(LLAMA, margin="8GiB")
    one = restow.price(job, **FITTING).candidate
    assert one.limit_bytes == one.capacity_bytes - 8 * 2**30
    one = restow.price(job, **FITTING, margin=2**30).candidate
    assert one.limit_bytes == one.capacity_bytes - 2**30


def test_tuples_paths_and_mappings_in_a_dict_are_what_json_has(llama_dict, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    llama_dict["search"]["pp"] = (1, 2, 4, 8)
    plain = restow.plan(llama_dict).ranked
    llama_dict["model"] = {"hf": pathlib.Path("config.json")}
    job = restow.Job.from_dict(types.MappingProxyType(llama_dict), folder=tmp_path)
    assert [c.step_s for c in restow.plan(job).ranked] == [c.step_s for c in plain]


def test_an_unknown_model_field_warns_and_strict_refuses_it(llama_dict, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "flux_capacitors": 3}))
    llama_dict["model"] = {"hf": tmp_path / "config.json"}
    with pytest.warns(restow.UnknownFieldWarning, match="flux_capacitors") as caught:
        job = restow.Job.from_dict(llama_dict)
    assert caught[0].filename == __file__
    with pytest.warns(restow.UnknownFieldWarning, match="flux_capacitors") as caught:
        restow.price(llama_dict, **FITTING)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restow.price(job, **FITTING)
    with pytest.raises(restow.InputError, match="flux_capacitors"):
        restow.price(llama_dict, **FITTING, strict=True)
    with pytest.raises(restow.InputError, match="flux_capacitors"):
        restow.Job.from_dict(llama_dict, strict=True)


def test_jobs_are_made_by_reading_only(llama_dict):
    for make in (restow.Job, lambda: restow.Job.from_file(llama_dict),
                 lambda: restow.Job.from_dict("job.yaml")):
        with pytest.raises(TypeError, match="from_"):
            make()
