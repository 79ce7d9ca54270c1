"""Faults become exceptions that carry their place."""

import pickle

import pytest
import restow
from conftest import FITTING, LLAMA, command


def test_the_classes_are_what_they_are_caught_as():
    for kind, bases in ((restow.InputError, (restow.Error, ValueError)),
                        (restow.NothingFits, (restow.Error,)),
                        (restow.ModifiedInPlace, (restow.Error,)),
                        (restow.Overlap, (restow.Error, ValueError)),
                        (restow.Unsupported, (restow.Error, NotImplementedError)),
                        (restow.OutOfMemory, (restow.Error, MemoryError)),
                        (restow.NotDeterministic, (restow.Error,)),
                        (restow.Error, (RuntimeError,))):
        for base in bases:
            assert issubclass(kind, base)


def broken(tmp_path, old, new):
    path = tmp_path / "job.yaml"
    text = LLAMA.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_a_fault_in_a_file_carries_file_line_and_column(tmp_path):
    path = broken(tmp_path, "sequence: 8192", "sequence: many")
    line = [n for n, text in enumerate(path.read_text().splitlines(), 1) if "many" in text][0]
    with pytest.raises(restow.InputError) as caught:
        restow.plan(path)
    error = caught.value
    # Two spaces and "sequence: " stand before the value.
    assert (error.file, error.line, error.column) == (str(path), line, 13)
    assert str(error) == f"{path}:{line}:13: {error.message}"
    assert "many" in error.message


def test_the_message_is_the_commands(tmp_path):
    import subprocess
    from conftest import BINARY
    path = broken(tmp_path, "h100-sxm", "h101-sxm")
    run = subprocess.run([BINARY, "plan", path], capture_output=True, text=True, check=False)
    with pytest.raises(restow.InputError) as caught:
        restow.Job.from_file(path)
    assert run.stderr == f"restow: error: {caught.value}\n"


def test_a_fault_in_a_dict_carries_its_place_in_the_indented_json(llama_dict):
    import json
    llama_dict["training"]["sequence"] = "many"
    lines = json.dumps(llama_dict, indent=2).splitlines()
    line = [n for n, text in enumerate(lines, 1) if '"many"' in text][0]
    with pytest.raises(restow.InputError, match="training.sequence") as caught:
        restow.plan(llama_dict)
    error = caught.value
    assert (error.file, error.line) == ("<dict>", line)
    assert error.column == lines[line - 1].index('"many"') + 1


def test_a_fault_in_an_argument_names_it():
    with pytest.raises(restow.InputError) as caught:
        restow.plan(LLAMA, tp="many")
    assert (caught.value.file, caught.value.line) == ("argument tp=many", None)


def test_a_missing_file_is_an_input_error():
    with pytest.raises(restow.InputError, match="no such file") as caught:
        restow.plan("/nowhere/job.yaml")
    assert (caught.value.file, caught.value.line, caught.value.column) == (
        "/nowhere/job.yaml", None, None)


@pytest.mark.parametrize("document", [{"model": object()}, {"model": float("nan")}, {}, {"a": 1}])
def test_a_dict_that_is_no_job_is_an_input_error(document):
    with pytest.raises(restow.InputError) as caught:
        restow.plan(document)
    assert caught.value.file == "<dict>"


def test_a_dict_that_holds_itself_is_an_input_error():
    document = {}
    document["model"] = document
    with pytest.raises(restow.InputError, match="JSON"):
        restow.plan(document)


def test_text_that_no_file_name_can_hold_is_refused():
    with pytest.raises(restow.InputError):
        restow.plan({"model": {"preset": "\udcff"}})


@pytest.mark.parametrize("options", [{"top": 0}, {"top": 10**9}, {"threads": 0}, {"threads": 5000},
                                     {"margin": "2"}, {"margin": True},
                                     {"calibration": "/nowhere/c.yaml"}])
def test_an_option_out_of_bounds_is_refused_by_name(options):
    name = next(iter(options))
    with pytest.raises(restow.InputError, match=name if name != "calibration" else "nowhere"):
        restow.plan(LLAMA, **options)


def test_candidates_that_do_not_exist_are_refused():
    with pytest.raises(restow.InputError, match="no rank 4000"):
        restow.compare(LLAMA, 4000, "current", tp=8, pp=4)
    for side in (0, -1, "best", True):
        with pytest.raises(restow.InputError):
            restow.compare(LLAMA, side, 1)


def test_a_plan_in_which_nothing_fits_is_an_answer():
    report = restow.plan(LLAMA, margin="70GiB")
    assert report.ranked == []
    assert "nothing fits" in repr(report)
    miss = report.nearest_misses[0]
    assert miss.shortfall_bytes == miss.peak_bytes - miss.limit_bytes > 0
    assert miss.remedy
    assert "miss" in report._repr_html_()


def test_presets_that_do_not_exist_are_refused():
    with pytest.raises(restow.InputError, match="h101"):
        restow.devices("h101")
    with pytest.raises(restow.InputError, match="llama9"):
        restow.models("llama9")
    with pytest.raises(restow.InputError, match="plan-report"):
        restow.schema("nothing")


def test_a_model_that_cannot_be_priced_is_unsupported(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "mamba", "architectures": ["MambaForCausalLM"]}')
    with pytest.raises(restow.Unsupported, match="(?i)mamba"):
        restow.models(path)


def test_errors_survive_pickling():
    for error in (restow.InputError("bad", "job.yaml", 3, 4), restow.InputError("bad"),
                  restow.NothingFits("no"), restow.Unsupported("later")):
        back = pickle.loads(pickle.dumps(error))
        assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
    assert str(restow.InputError("bad", "job.yaml", 3, 4)) == "job.yaml:3:4: bad"


def test_a_wrong_type_is_a_type_error():
    for job in (3, None, ["job.yaml"]):
        with pytest.raises(TypeError):
            restow.plan(job)
    with pytest.raises(TypeError):
        restow.plan(LLAMA, top="ten")


def test_price_of_what_fits_says_so():
    assert restow.price(LLAMA, **FITTING).fits
    assert "fits      yes" in command("price", LLAMA, "tp=8", "pp=4", "vpp=1", "recompute=full")
