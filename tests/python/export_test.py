"""restow.export writes what the command writes."""

import pathlib

import pytest
import restow
from conftest import FITTING, LLAMA, TOO_LARGE, command, dimension_words


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.mark.parametrize("keywords, words", [({}, []), ({"rank": 2}, ["--rank", 2]),
                                             (FITTING, dimension_words(FITTING))])
def test_files_equal_the_commands(tmp_path, keywords, words):
    paths = restow.export(LLAMA, to="restow", out=tmp_path / "python", **keywords)
    printed = command("export", LLAMA, "--to", "restow", *words, "-o", tmp_path / "command")
    assert contents(tmp_path / "python") == contents(tmp_path / "command")
    assert [path.name for path in paths] == [pathlib.Path(p).name for p in printed.split()]
    assert all(path.is_file() for path in paths)


def test_the_pattern_of_modules_reaches_the_files(tmp_path):
    path = restow.export(LLAMA, out=str(tmp_path), modules="decoder.{layer}", **FITTING)[0]
    assert '"decoder.' in path.read_text()


def test_what_does_not_fit_is_not_written(tmp_path):
    for keywords in (TOO_LARGE, {"margin": "70GiB"}):
        with pytest.raises(restow.NothingFits, match="nothing is written"):
            restow.export(LLAMA, out=tmp_path / "plans", **keywords)
    assert not (tmp_path / "plans").exists()


def test_rank_and_dimensions_exclude_one_another(tmp_path):
    with pytest.raises(restow.InputError, match="state one of them"):
        restow.export(LLAMA, out=tmp_path, rank=1, tp=8)


def test_other_targets_and_ranks_are_refused(tmp_path):
    with pytest.raises(restow.Unsupported, match="megatron"):
        restow.export(LLAMA, to="megatron", out=tmp_path)
    with pytest.raises(restow.InputError, match="nothing"):
        restow.export(LLAMA, to="nothing", out=tmp_path)
    with pytest.raises(restow.InputError, match="no rank 900000"):
        restow.export(LLAMA, rank=900000, out=tmp_path, tp=None)
    with pytest.raises(restow.InputError, match="rank"):
        restow.export(LLAMA, rank=0, out=tmp_path)
    with pytest.raises(restow.InputError, match="/proc/nowhere"):
        restow.export(LLAMA, out="/proc/nowhere", **FITTING)
    assert contents(tmp_path) == {}


def test_files_left_from_more_stages_are_warned_of(tmp_path):
    restow.export(LLAMA, out=tmp_path, tp=8, pp=8, vpp=1, recompute="full")
    with pytest.warns(UserWarning, match="stage-4.json is left"):
        restow.export(LLAMA, out=tmp_path, **FITTING)
