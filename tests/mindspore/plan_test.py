"""Activation plans on cells: carried out with equal bits, taken back, refused whole."""

import json

import mindspore as ms
import pytest
from mindspore import nn, ops
from models import PassThrough, gradients, model, tensor, train

import restow
import restow.mindspore as rm
from restow._plan_schema import PlanDefaults, PlannedRegion, PlannedSwap
from restow.mindspore import _explain, _overlap, _settings

MODES = ("keep", "recompute", "swap", "swap+recompute")


def plan_of(*regions, **fields):
    """A plan of (pattern, mode) pairs."""
    return rm.ActivationPlan(tuple(PlannedRegion(*region) for region in regions), **fields)


def state_of(whole):
    """What a refused plan must leave as it was."""
    tree = [(name, id(cell)) for name, cell in whole.cells_and_names()]
    return tree, [p.name for p in whole.get_parameters()], _settings.current(), _overlap.entries()


@pytest.mark.parametrize("mode", MODES)
def test_training_under_a_plan_is_bit_equal_and_does_what_the_plan_says(mode):
    plain = train(model())
    whole = model()
    names = [p.name for p in whole.get_parameters()]
    applied = rm.apply(whole, plan_of(("layers.*", mode)))
    assert [p.name for p in whole.get_parameters()] == names
    assert train(whole) == plain
    assert (rm.stats().bytes_out > 0) == ("swap" in mode)
    assert (rm.stats().recomputed_regions > 0) == ("recompute" in mode)
    assert [row.module for row in applied.report()] == ["layers.0", "layers.1", "layers.2"]
    applied.undo()
    applied.undo()
    assert not any(isinstance(cell, rm.ActivationWrapper) for _, cell in whole.cells_and_names())
    assert [p.name for p in whole.get_parameters()] == names


def test_each_cell_goes_by_the_first_region_that_names_it():
    whole = model()
    applied = rm.apply(whole, plan_of(("layers.1", "recompute"), ("layers.*", "swap")))
    kinds = [type(layer).__name__ for layer in whole.layers]
    assert kinds == ["SwapWrapper", "CheckpointWrapper", "SwapWrapper"]
    applied.undo()


def test_a_plan_is_taken_as_its_file_and_as_what_the_file_holds(tmp_path):
    plan = plan_of(("layers.**", "keep"), ("head", "swap"))
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    for form in (str(path), path, json.loads(plan.to_json()), plan):
        whole = model()
        applied = rm.apply(whole, form)
        assert isinstance(whole.head, rm.SwapWrapper)
        assert applied.plan.regions == plan.regions
        applied.undo()


def test_cells_of_a_sequence_are_wrapped_where_it_runs_them():
    ms.set_seed(0)
    whole = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh(), nn.Dense(4, 4))
    plain = gradients(lambda x: whole(x).sum(), tensor(3, 4))
    applied = rm.apply(whole, plan_of(("1", "recompute")))
    assert gradients(lambda x: whole(x).sum(), tensor(3, 4)) == plain
    assert rm.stats().recomputed_regions == 1
    applied.undo()
    assert gradients(lambda x: whole(x).sum(), tensor(3, 4)) == plain
    assert rm.stats().recomputed_regions == 1


def test_a_kept_cell_inside_a_swapped_one_keeps_its_tensors():
    def moved(*regions):
        whole = model(layers=1)
        applied = rm.apply(whole, plan_of(*regions))
        rm.reset_stats()
        gradients(lambda x: whole(x).sum(), tensor(5, 4))
        applied.undo()
        return rm.stats().bytes_out

    whole = moved(("layers.0", "swap"))
    part = moved(("layers.0.norm", "keep"), ("layers.0", "swap"))
    assert 0 < part < whole
    kept = _explain.site_bytes()["layers.0.norm"]
    assert kept.kept_bytes > 0 and kept.swapped_bytes == 0


def test_the_swap_settings_hold_until_the_plan_is_taken_back():
    before = _settings.current()
    whole = model()
    swap = PlannedSwap(host_bytes_cap=1 << 20, window_bytes=1 << 21, keep_last_region=False)
    applied = rm.apply(whole, plan_of(("head", "swap"), swap=swap))
    now = _settings.current()
    assert (now.host_cap, now.window, now.keep_last_region) == (1 << 20, 1 << 21, False)
    applied.undo()
    assert _settings.current() == before


REFUSED = {
    "a pattern that matches nothing": (plan_of(("layrs.*", "swap")), restow.InputError),
    "selective": (
        rm.ActivationPlan((PlannedRegion("head", "selective", save=("MatMul",)),)),
        restow.Unsupported,
    ),
    "a default other than keep": (
        plan_of(("head", "swap"), defaults=PlanDefaults("recompute")),
        restow.Unsupported,
    ),
    "kept inside recomputed": (
        plan_of(("layers.0.norm", "keep"), ("layers.0", "recompute")),
        restow.Unsupported,
    ),
    "no plan": ({"schema": "something else"}, restow.InputError),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_refused_plan_changes_nothing(case):
    plan, error = REFUSED[case]
    whole = model()
    before = state_of(whole)
    with pytest.raises(error):
        rm.apply(whole, plan)
    assert state_of(whole) == before


def test_a_plan_on_wrappers_and_a_second_plan_are_refused():
    whole = model()
    whole.layers[1] = PassThrough(whole.layers[1])
    before = state_of(whole)
    with pytest.raises(restow.Overlap):
        rm.apply(whole, plan_of(("layers.*", "swap")))
    assert state_of(whole) == before
    rm.unwrap(whole)
    applied = rm.apply(whole, plan_of(("layers.*", "swap")))
    with pytest.raises(restow.Error, match="undo"):
        rm.apply(whole, plan_of(("head", "swap")))
    applied.undo()


def test_without_a_folder_for_files_a_plan_that_swaps_is_refused():
    rm.configure(file_dir="")
    whole = model()
    before = state_of(whole)
    with pytest.raises(restow.Unsupported, match="file_dir"):
        rm.apply(whole, plan_of(("head", "swap")))
    assert state_of(whole) == before


def test_only_cells_take_a_plan():
    with pytest.raises(TypeError, match="function"):
        rm.apply(lambda x: ops.tanh(x), plan_of(("head", "swap")))
