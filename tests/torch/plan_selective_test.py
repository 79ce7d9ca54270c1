"""Selective regions of activation plans: exported, carried out, and measured."""

import sys

import pytest
import torch
from helpers import ROOT, assert_same
from plan_models import BAR_PCT, JOB, Net
from torch import nn

import restow
import restow.torch as rt
from restow._plan_schema import PlannedRegion

sys.path.insert(0, str(ROOT / "examples" / "torch"))
import tiny  # noqa: E402

def test_a_selective_region_keeps_the_operators_it_names(cpu_setting):
    torch.manual_seed(0)
    model = Net()
    x = torch.randn(4, 8, requires_grad=True)
    model(x).backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    region = PlannedRegion("blocks.*", "selective", save=("matmul",), recompute=("aten::tanh",))
    rt.reset_stats()
    applied = rt.apply(model, rt.ActivationPlan((region,)))
    model(x).backward()
    applied.undo()
    assert all(torch.equal(p.grad, w) for p, w in zip(model.parameters(), wanted))
    assert rt.stats().recomputed_regions == 3


class FusedAttention(tiny.Attention):
    """What ``attention: flash`` prices, under the selective policy: one operator."""

    def forward(self, x):
        sizes, (batch, tokens, _) = self.sizes, x.shape
        cos, sin = self.cos[:tokens].to(x.dtype), self.sin[:tokens].to(x.dtype)
        query = tiny.rotated(self.heads(self.q_proj(x)), cos, sin)
        key = tiny.rotated(self.heads(self.k_proj(x)), cos, sin)
        value = self.heads(self.v_proj(x))
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, tokens, sizes.hidden))


def fused_tiny():
    model = tiny.tiny()
    for layer in model.model.layers:
        fused = FusedAttention(tiny.Sizes()).to(torch.bfloat16)
        fused.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = fused
    return model


def selective_job(folder, attention="flash"):
    text = JOB.read_text().replace("memory: 32 MB", "memory: 64 MB")
    text = text.replace("attention: unfused", f"attention: {attention}")
    job = folder / "job.yaml"
    job.write_text(text.replace("recompute: [off, full]", "recompute: selective"))
    return job


def gradients_of(model, device):
    words, targets = (t.to(device) for t in tiny.batch())
    model.zero_grad()
    model(words, targets).backward()
    return [p.grad.cpu() for p in model.parameters()]


def test_an_exported_selective_plan_is_carried_out_as_it_was_priced(cpu_setting, tmp_path):
    """On the CPU, where torch has a fused attention kernel; the emulator's is made of products."""
    (path,) = restow.export(selective_job(tmp_path), out=tmp_path)
    plan = rt.ActivationPlan.from_file(path)
    assert {region.save for region in plan.regions} == {("attention", "every second matmul")}
    model = fused_tiny()
    wanted = gradients_of(model, "cpu")
    applied = rt.apply(model, plan)
    assert_same(wanted, gradients_of(model, "cpu"))
    report = applied.report()
    applied.undo()
    print(report)
    assert len(report.rows) == 6
    for row in (*report, report.total):
        assert abs(row.kept_off_pct) <= BAR_PCT, str(report)
        assert row.swapped_bytes == 0


def test_an_exported_selective_plan_gives_the_same_gradients_on_a_device(emu_setting, tmp_path):
    (path,) = restow.export(selective_job(tmp_path), out=tmp_path)
    model = fused_tiny().to("emu")
    wanted = gradients_of(model, "emu")
    applied = rt.apply(model, path)
    assert_same(wanted, gradients_of(model, "emu"))
    print(applied.report())
    applied.undo()


def test_a_selective_candidate_that_no_operator_names_is_not_exported(tmp_path):
    with pytest.raises(restow.Unsupported, match="not fused is no operator.*recompute=full"):
        restow.export(selective_job(tmp_path, "unfused"), out=tmp_path / "plans")
    assert not (tmp_path / "plans").exists()


def test_a_selective_region_with_a_name_that_is_no_operator_changes_nothing():
    model = Net()
    region = PlannedRegion("blocks.*", "selective", save=("core attention",))
    with pytest.raises(restow.InputError, match="core attention"):
        rt.apply(model, rt.ActivationPlan((region,)))
    assert not any(isinstance(m, rt.ActivationWrapper) for m in model.modules())


def test_every_second_matmul_is_kept_the_first_included(cpu_setting):
    weights = [torch.randn(4, 4, requires_grad=True) for _ in range(5)]
    kept = []

    def fn(x):
        for weight in weights:
            x = torch.nn.functional.linear(x, weight).sin()
        return x

    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if rt.is_recomputing() and func is torch.ops.aten.mm.default:
                kept.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.randn(3, 4, requires_grad=True)
    wanted = torch.autograd.grad(fn(x).sum(), x)
    with Counted():
        actual = torch.autograd.grad(
            rt.checkpoint(fn, x, policy_fn=["every second matmul"], early_stop=False).sum(), x
        )
    assert_same(wanted, actual)
    assert len(kept) == 2, "the second and the fourth are run again"
