"""What a selective checkpoint keeps of an operator: its result, and not what it was made from."""

import pytest
import torch
from helpers import assert_same, explained
from torch.nn import functional

import restow.torch as rt


def kept_bytes():
    """Bytes kept of operators in the last selective checkpoint; storages once."""
    return sum(row.bytes for row in explained() if "(kept)" in row.label)


@pytest.mark.parametrize("shape", [(4, 8), (2, 4, 8)], ids=["flat", "batched"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_a_kept_product_keeps_neither_its_input_nor_its_weight(setting, shape, bias):
    """As one operator it saves views of both, which its arguments give again."""
    layer = torch.nn.Linear(8, 16, bias=bias).to(setting.device)

    def fn(x):
        return layer(x.sin()).cos()

    x = setting.leaf(*shape)
    wanted = torch.autograd.grad(fn(x).sum(), [x, *layer.parameters()])
    rt.reset_stats()
    loss = rt.checkpoint(fn, x, policy_fn=["matmul"]).sum()
    assert kept_bytes() == 4 * x.numel() * 2
    assert_same(wanted, torch.autograd.grad(loss, [x, *layer.parameters()]))


def test_an_argument_that_lies_otherwise_in_the_rerun_is_no_source_of_views(setting):
    """The operator is run again then."""
    weight = setting.leaf(8, 16)
    first = []

    def fn(x):
        y = x.sin().clone(memory_format=torch.channels_last if first else torch.contiguous_format)
        first.append(True)
        return functional.linear(y, weight.t()).cos()

    x = setting.leaf(2, 3, 4, 8)
    wanted = torch.autograd.grad(fn(x).sum(), [x, weight])
    first.clear()
    loss = rt.checkpoint(fn, x, policy_fn=["aten::linear"], determinism_check="none").sum()
    assert_same(wanted, torch.autograd.grad(loss, [x, weight]))


def test_a_conjugated_argument_is_not_taken_for_its_storage(cpu_setting):
    def fn(x, y):
        return torch.matmul(x.conj(), y).sin().abs()

    x = torch.randn(3, 4, dtype=torch.complex64, requires_grad=True)
    y = torch.randn(4, 5, dtype=torch.complex64, requires_grad=True)
    wanted = torch.autograd.grad(fn(x, y).sum(), [x, y])
    for policy in (["matmul"], lambda ctx, op, *a, **k: rt.CheckpointPolicy.MUST_SAVE):
        loss = rt.checkpoint(fn, x, y, policy_fn=policy).sum()
        assert_same(wanted, torch.autograd.grad(loss, [x, y]))
