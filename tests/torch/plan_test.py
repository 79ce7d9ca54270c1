"""Activation plans: read, carried out, taken back, and measured against the planner."""

import dataclasses
import gc
import json
import sys
import weakref

import pytest
import torch
from helpers import ROOT, assert_same
from plan_models import BAR_PCT, JOB, Block, Net
from torch import nn

import restow
import restow.torch as rt
from restow.torch import _overlap, _settings
from restow._plan_schema import PlanDefaults, PlannedRegion, PlannedSwap, Predicted

sys.path.insert(0, str(ROOT / "examples" / "torch"))
import tiny  # noqa: E402

MODES = ("keep", "recompute", "swap", "swap+recompute")


def plan_of(*regions, **fields):
    """A plan of (pattern, mode) pairs."""
    return rt.ActivationPlan(tuple(PlannedRegion(*region) for region in regions), **fields)


def net(device="cpu"):
    torch.manual_seed(0)
    return Net().to(device)


def step(model, device):
    """The loss and gradients of one step."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(5, 8, generator=generator).to(device)
    model.zero_grad()
    loss = model(x)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters())]


def state_of(model):
    """What a refused plan must leave as it was."""
    tree = [(name, id(module)) for name, module in model.named_modules()]
    return tree, _settings.current(), _overlap.entries()


@pytest.fixture
def document(tmp_path):
    """What the file of a real plan holds."""
    (path,) = restow.export(JOB, recompute="full", out=tmp_path)
    return json.loads(path.read_text())


class TestReading:
    def test_a_plan_reads_back_what_it_was_written_as(self, document):
        plan = rt.ActivationPlan.from_dict(document)
        assert plan.to_dict() == document
        assert rt.ActivationPlan.from_json(plan.to_json()).to_json() == plan.to_json()
        assert [r.module for r in plan.regions] == [f"model.layers.{i}" for i in range(6)]
        assert {r.mode for r in plan.regions} == {"recompute"}
        assert plan.defaults == PlanDefaults("keep")
        assert plan.framework == "torch"

    def test_a_plan_is_immutable(self, document):
        plan = rt.ActivationPlan.from_dict(document)
        with pytest.raises(dataclasses.FrozenInstanceError):
            plan.stage = 1

    def test_a_fault_names_the_file_the_place_and_the_remedy(self, document, tmp_path):
        document["schema"] = "restow.activation-plan/2"
        path = tmp_path / "newer.json"
        path.write_text(json.dumps(document))
        with pytest.raises(restow.InputError, match="restow export JOB --to restow") as caught:
            rt.ActivationPlan.from_file(path)
        assert caught.value.file == str(path)
        assert caught.value.line == 1

    @pytest.mark.parametrize("field", ["regions", "defaults", "swap", "stage"])
    def test_a_missing_field_is_named(self, document, field):
        del document[field]
        with pytest.raises(restow.InputError, match=f"{field} is missing") as caught:
            rt.ActivationPlan.from_dict(document)
        assert caught.value.file == "<dict>"

    def test_an_unknown_mode_is_refused_with_the_allowed_ones(self, document):
        document["regions"][2]["mode"] = "offload"
        text = r"regions\[2\].mode is .offload.; allowed: keep"
        with pytest.raises(restow.InputError, match=text):
            rt.ActivationPlan.from_dict(document)

    def test_a_file_that_is_not_there_is_an_input_error(self, tmp_path):
        with pytest.raises(restow.InputError, match="cannot be read"):
            rt.ActivationPlan.from_file(tmp_path / "none.json")

    def test_what_is_no_json_is_an_input_error(self):
        with pytest.raises(restow.InputError, match="no JSON"):
            rt.ActivationPlan.from_dict({"schema": object()})
        with pytest.raises(restow.InputError):
            rt.ActivationPlan.from_json("{")


class TestApplying:
    @pytest.mark.parametrize("mode", MODES)
    def test_gradients_are_those_of_the_plain_model(self, emu_setting, mode):
        model = net("emu")
        expected = step(model, "emu")
        applied = rt.apply(model, plan_of(("blocks.*", mode)))
        for _ in range(2):
            assert_same(expected, step(model, "emu"), mode)
        rows = {row.module: row for row in applied.report()}
        assert list(rows) == ["blocks.0", "blocks.1", "blocks.2"]
        assert all(row.kept_bytes is not None for row in rows.values())
        moved = rows["blocks.0"].swapped_bytes
        assert moved > 0 if "swap" in mode else moved == 0
        applied.undo()
        assert_same(expected, step(model, "emu"), "undone")

    def test_names_and_states_stay_those_of_the_plain_model(self):
        model = net()
        names = [name for name, _ in model.named_parameters()]
        keys = list(model.state_dict())
        applied = rt.apply(model, plan_of(("blocks.1", "recompute"), ("blocks.*", "keep")))
        assert [name for name, _ in model.named_parameters()] == names
        assert list(model.state_dict()) == keys
        assert isinstance(model.blocks[1], rt.CheckpointWrapper)
        assert model.blocks[1]._site == "blocks.1"
        applied.undo()

    def test_undo_restores_the_tree_and_the_settings(self):
        model = net()
        before = state_of(model)
        swap = PlannedSwap(host_bytes_cap=1 << 20, window_bytes=1 << 16, keep_last_region=False)
        applied = rt.apply(model, plan_of(("blocks.*", "recompute"), swap=swap))
        under = _settings.current()
        assert (under["host_cap"], under["window"]) == (1 << 20, 1 << 16)
        assert under["keep_last_region"] is False
        assert state_of(model) != before
        applied.undo()
        gc.collect()
        assert state_of(model) == before
        applied.undo()
        assert state_of(model) == before

    def test_zero_bytes_in_a_plans_swap_leave_what_configure_says(self):
        before = _settings.current()
        applied = rt.apply(net(), plan_of(("blocks.*", "keep")))
        assert _settings.current() == before
        applied.undo()

    def test_a_second_plan_is_an_error_until_the_first_is_undone(self):
        model = net()
        first = rt.apply(model, plan_of(("blocks.0", "recompute")))
        with pytest.raises(restow.Error, match=r"undo\(\) it first"):
            rt.apply(model, plan_of(("blocks.1", "recompute")))
        assert not isinstance(model.blocks[1], rt.ActivationWrapper)
        first.undo()
        second = rt.apply(model, plan_of(("blocks.1", "recompute")))
        assert isinstance(model.blocks[1], rt.CheckpointWrapper)
        second.undo()

    def test_a_path_a_dict_and_a_plan_are_taken(self, tmp_path):
        plan = plan_of(("blocks.*", "recompute"))
        path = tmp_path / "plan.json"
        path.write_text(plan.to_json())
        for form in (path, str(path), plan.to_dict(), plan):
            model = net()
            applied = rt.apply(model, form)
            assert isinstance(model.blocks[2], rt.CheckpointWrapper)
            applied.undo()

    def test_what_is_no_module_is_a_type_error(self):
        with pytest.raises(TypeError, match="takes a module, not function"):
            rt.apply(step, plan_of(("*", "keep")))

    def test_a_module_with_two_names_is_wrapped_once_in_both_places(self):
        model = net()
        model.again = model.blocks[0]
        applied = rt.apply(model, plan_of(("blocks.0", "recompute"), ("again", "keep")))
        assert model.again is model.blocks[0]
        assert isinstance(model.again, rt.CheckpointWrapper)
        applied.undo()
        assert model.again is model.blocks[0]
        assert type(model.again) is Block

    def test_a_place_given_another_module_meanwhile_keeps_it(self):
        model = net()
        applied = rt.apply(model, plan_of(("blocks.*", "recompute")))
        other = Block()
        model.blocks[1] = other
        applied.undo()
        assert model.blocks[1] is other
        assert type(model.blocks[0]) is Block

    def test_a_wrapper_held_after_undo_is_a_plain_call(self):
        model = net()
        applied = rt.apply(model, plan_of(("blocks.0", "recompute")))
        held, inner = model.blocks[0], model.blocks[0].unwrap_module
        applied.undo()
        rt.reset_stats()
        x = torch.randn(2, 8, requires_grad=True)
        held(x).sum().backward()
        assert rt.stats().recomputed_regions == 0
        assert model.blocks[0] is inner

    def test_a_model_may_die_under_its_plan(self):
        entries = _overlap.entries()
        model = net()
        rt.apply(model, plan_of(("blocks.*", "keep")))
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None
        assert _overlap.entries() == entries

    def test_kept_inside_swapped_stays(self, emu_setting):
        model = net("emu")
        expected = step(model, "emu")
        plan = plan_of(
            ("blocks.*", "swap"), ("blocks.0.down", "keep"), swap=PlannedSwap(0, 0, False)
        )
        applied = rt.apply(model, plan)
        for _ in range(2):
            assert_same(expected, step(model, "emu"))
        rows = {row.module: row for row in applied.report()}
        # The input of `down`, [5, 32] in fp32, is tanh's output too, which the block saves first.
        assert rows["blocks.0.down"].swapped_bytes == 0
        assert rows["blocks.1"].swapped_bytes > 0
        applied.undo()


class TestRefusing:
    @pytest.mark.parametrize(
        ("plan", "error", "text"),
        [
            (plan_of(("blocks.0", "recompute"), ("blocks.1", "selective")), restow.Unsupported,
             "'blocks.1' is selective"),
            (plan_of(("blocks.*", "keep"), defaults=PlanDefaults("swap")), restow.Unsupported,
             "defaults.mode is swap"),
            (plan_of(("blocks.0", "keep"), ("layers.*", "keep")), restow.InputError,
             r"'layers.\*' matches no module"),
            (plan_of(("blocks.*", "swap"), ("blocks.1.up", "recompute")), restow.InputError,
             "'blocks.1.up'"),
            (plan_of(("blocks.*", "recompute"), ("blocks.1.up", "keep")), restow.Unsupported,
             "'blocks.1.up' is to be kept inside 'blocks.1'"),
        ],
    )
    def test_nothing_is_changed_when_anything_is_refused(self, plan, error, text):
        model = net()
        before = state_of(model)
        with pytest.raises(error, match=text):
            rt.apply(model, plan)
        gc.collect()
        assert state_of(model) == before
        rt.apply(model, plan_of(("blocks.*", "keep"))).undo()

    def test_an_unmatched_pattern_names_three_modules_near_it(self):
        with pytest.raises(restow.InputError, match="'blocks.0', 'blocks.1' and 'blocks.2'"):
            rt.apply(net(), plan_of(("blocks.9", "keep")))

    def test_a_model_with_wrappers_of_its_own_is_refused_whole(self):
        model = net()
        model.blocks[2] = rt.swap_wrapper(model.blocks[2])
        before = state_of(model)
        with pytest.raises(restow.Overlap):
            rt.apply(model, plan_of(("blocks.*", "recompute")))
        gc.collect()
        assert state_of(model) == before

    def test_settings_that_are_refused_take_the_wrappers_out_again(self, monkeypatch):
        model = net()
        before = state_of(model)
        monkeypatch.setattr(_settings, "configure", lambda **settings: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            rt.apply(model, plan_of(("blocks.*", "recompute")))
        monkeypatch.undo()
        gc.collect()
        assert state_of(model) == before


def exported(mode, folder):
    """The exported plan of tiny.yaml. The planner does not price swap: what it keeps is swapped."""
    recompute = "full" if "recompute" in mode else "off"
    # On a larger device: what does not fit is not exported.
    job = folder / "job.yaml"
    job.write_text(JOB.read_text().replace("memory: 32 MB", "memory: 64 MB"))
    (path,) = restow.export(job, recompute=recompute, out=folder)
    plan = rt.ActivationPlan.from_file(path)
    if "swap" not in mode:
        assert {region.mode for region in plan.regions} == {mode}
        return plan
    swapped = [
        dataclasses.replace(
            region, mode=mode, predicted=Predicted(0, region.predicted.kept_bytes, 0.0)
        )
        for region in plan.regions
    ]
    return dataclasses.replace(
        plan, regions=tuple(swapped), swap=PlannedSwap(keep_last_region=False)
    )


def saved_by(call):
    """Bytes of the storages that autograd saves during `call`, by their holder, each once."""
    found = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        found.setdefault(storage._cdata, (storage, tuple(tensor.shape), tensor.dtype))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call()
    return {key: (s.nbytes(), shape, dtype) for key, (s, shape, dtype) in found.items()}


class TestRoundTrip:
    @pytest.mark.parametrize("emu_setting", ["emu-late-proxy", "emu-random-python"], indirect=True)
    @pytest.mark.parametrize("mode", MODES)
    def test_bytes_are_within_the_bar_of_the_planners(self, mode, tmp_path, emu_setting):
        model = tiny.tiny().to("emu")
        plan = exported(mode, tmp_path)
        applied = rt.apply(model, plan)
        words, targets = (t.to("emu") for t in tiny.batch())
        model(words, targets).backward()
        report = applied.report()
        applied.undo()
        print(report)
        assert len(report.rows) == 6
        for row in (*report, report.total):
            assert abs(row.kept_off_pct) <= BAR_PCT, str(report)
            assert abs(row.swapped_off_pct) <= BAR_PCT, str(report)

    def test_a_layer_saves_what_the_planner_lists_but_for_the_norms_scales(self):
        sizes = tiny.Sizes()
        layer = tiny.tiny().model.layers[1]
        known = {t.untyped_storage()._cdata for t in (*layer.parameters(), *layer.buffers())}
        x = torch.randn(4, sizes.sequence, sizes.hidden, dtype=torch.bfloat16, requires_grad=True)
        outcome = []
        saved = saved_by(lambda: outcome.append(layer(x)))
        measured = sum(size for key, (size, _, _) in saved.items() if key not in known)
        price = restow.price(JOB, recompute="off").candidate
        tokens = 4 * sizes.sequence
        # Each norm keeps rsqrt's result, one fp32 per token, which the planner leaves out.
        assert measured == price.memory["activations"] // sizes.layers + 2 * 4 * tokens
        # By hand, bytes of a token: two norms of an fp32 input and two bf16 values; query, and key
        # and value for all heads; fp32 and bf16 scores; the attention's output; four of the
        # feed-forward's.
        h, s, f = sizes.hidden, sizes.sequence, sizes.ffn
        by_hand = 2 * 8 * h + 3 * 2 * h + 6 * sizes.heads * s + 2 * h + 4 * 2 * f
        assert measured == tokens * (by_hand + 8)

    def test_the_models_sizes_are_those_of_its_job(self):
        model = restow.models(JOB)
        sizes = tiny.Sizes()
        for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab"):
            assert getattr(model, name) == getattr(sizes, name), name
        assert sum(p.numel() for p in tiny.tiny().parameters()) == model.parameters


class TestReport:
    def test_modules_that_have_not_run_are_not_measured(self, cpu_setting):
        model = net()
        applied = rt.apply(model, plan_of(("blocks.*", "keep")))
        assert [row.kept_bytes for row in applied.report()] == [None, None, None]
        assert "0 of 3 modules" in str(applied.report())
        step(model, "cpu")
        # [5, 8] as the input of `up`, [5, 32] as tanh's output, in fp32; the sum saves nothing.
        assert [row.kept_bytes for row in applied.report()] == [5 * (8 + 32) * 4] * 3
        applied.undo()

    def test_it_prints_predicted_and_measured_of_every_module(self, cpu_setting):
        model = net()
        predicted = Predicted(kept_bytes=1000)
        region = PlannedRegion("blocks.*", "keep", predicted=predicted)
        applied = rt.apply(model, rt.ActivationPlan((region,)))
        step(model, "cpu")
        lines = str(applied.report()).splitlines()
        assert lines[0].split() == ["module", "mode", "kept", "bytes", "swapped", "bytes"]
        assert lines[2].split() == ["blocks.0", "keep", "1,000", "800", "+25.00", "0", "0", "+0.00"]
        assert lines[-1].split()[:4] == ["3", "of", "3", "modules"]
        applied.undo()

    def test_an_earlier_plans_figures_are_not_taken_for_this_ones(self, cpu_setting):
        model = net()
        first = rt.apply(model, plan_of(("blocks.*", "keep")))
        step(model, "cpu")
        first.undo()
        second = rt.apply(model, plan_of(("blocks.*", "keep")))
        assert [row.kept_bytes for row in second.report()] == [None, None, None]
        step(model, "cpu")
        assert all(row.kept_bytes for row in second.report())
        second.undo()
