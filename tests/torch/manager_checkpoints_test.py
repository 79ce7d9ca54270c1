"""Groups and chains inside checkpoints: what is to be recomputed is, and nothing takes it away."""

import warnings

import pytest
import torch
from helpers import WAYS, assert_same, eventually, must_swap, plain, settle
from torch.utils import checkpoint as torch_checkpoint

import restow.torch as rt
from restow.torch import CheckpointPolicy


@pytest.fixture(autouse=True)
def manager():
    """Every test leaves no group and no chain behind."""
    yield rt.SwapManager()
    rt.SwapManager().reset()


def torchs(fn, *args):
    return torch_checkpoint.checkpoint(fn, *args, use_reentrant=False)


CHECKPOINTS = {
    "checkpoint": WAYS["checkpoint"],
    "checkpoint in swap": WAYS["swap_of_checkpoint"],
    "torch's": torchs,
    "torch's in swap": lambda fn, *args: WAYS["swap"](torchs, fn, *args),
    "checkpoint in torch's": lambda fn, *args: torchs(WAYS["checkpoint"], fn, *args),
    "both in torch's": lambda fn, *args: torchs(WAYS["swap_of_checkpoint"], fn, *args),
}


def gradient(fn, x):
    twin = x.detach().clone().requires_grad_()
    fn(twin).sum().backward()
    return twin.grad


@pytest.mark.parametrize("way", CHECKPOINTS)
def test_layers_of_a_chain_inside_a_checkpoint(setting, manager, way):
    layers = [torch.nn.Linear(8, 8).to(setting.device) for _ in range(3)]

    def model(x, run):
        for layer in layers:
            x = run(lambda t, one=layer: one(t.sin()).exp(), x)
        return x

    x = setting.random(4, 8)
    wanted = gradient(lambda t: model(t, plain), x)
    manager.set_forward_prefetch_layer(layers[0], layers[1])
    manager.set_forward_prefetch_layer(layers[1], layers[2])
    assert_same(wanted, gradient(lambda t: model(t, CHECKPOINTS[way]), x))


@pytest.mark.parametrize("way", CHECKPOINTS)
def test_a_group_with_added_tensors_inside_a_checkpoint(setting, manager, way):
    def fn(x):
        with manager.group_context("g"):
            y = x.exp()
            manager.add_storage("g", [y])
            return y.sin() * y

    x = setting.random(4, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual = gradient(lambda t: CHECKPOINTS[way](fn, t), x)
    assert_same(gradient(fn, x), actual)


def test_tensors_added_by_a_function_that_is_run_again(setting, manager):
    """The group is that of the forward: in the backward no group is active."""

    def fn(x):
        y = x.exp()
        manager.add_storage("g", [y])
        return y.sin() * y

    def grouped(run, x):
        with manager.group_context("g"):
            return run(fn, x)

    x = setting.random(4, 8)
    wanted = gradient(lambda t: grouped(plain, t), x)
    for way in CHECKPOINTS.values():
        assert_same(wanted, gradient(lambda t, run=way: grouped(run, t), x))


def test_a_chain_inside_a_checkpoint_keeps_nothing_from_being_recomputed(setting, manager):
    layers = [torch.nn.Linear(8, 8).to(setting.device) for _ in range(2)]
    ran = []
    layers[0].register_forward_pre_hook(lambda *_: ran.append(rt.is_recomputing()))
    manager.set_forward_prefetch_layer(*layers)
    x = setting.leaf(4, 8)
    rt.checkpoint(lambda t: layers[1](layers[0](t.sin()).exp()), x).sum().backward()
    assert ran == [False, True]


def everything_swapped(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SWAP


def test_what_a_selective_checkpoint_swaps_moves_with_its_group(setting, manager):
    x = setting.leaf(64)
    with manager.group_context("g"):
        loss = rt.checkpoint(lambda t: t.exp().sin(), x, policy_fn=everything_swapped).sum()
    assert rt.stats().bytes_out == 0
    for call, out, back in (
        ("launch_offload", 2 * 256, 0),
        ("wait_offload", 2 * 256, 0),
        ("launch_load", 2 * 256, 2 * 256),
        ("wait_load", 2 * 256, 2 * 256),
    ):
        getattr(manager, call)("g")
        assert (rt.stats().bytes_out, rt.stats().bytes_in) == (out, back)
    loss.backward()
    assert rt.stats().demand_loads == 0
    assert_same(gradient(lambda t: t.exp().sin(), x.detach()), x.grad)


@pytest.mark.parametrize("form", ["wrapper", "contexts"])
def test_what_a_selective_checkpoint_swaps_goes_to_files_when_told(emu_setting, form):
    def fn(x):
        return x.exp().sin()

    def to(tier, x):
        if form == "wrapper":
            return rt.checkpoint_wrapper(fn, policy_fn=everything_swapped, tier=tier)(x)
        return rt.checkpoint(
            fn,
            x,
            context_fn=lambda: rt.create_selective_checkpoint_contexts(
                everything_swapped, tier=tier
            ),
        )

    for tier, to_files in (("host", False), ("file", True)):
        x = emu_setting.leaf(1024)
        y = x
        for _ in range(4):
            y = to(tier, y)
            settle()

        def reached_a_file():
            # What has reached the host goes on to the file, and is seen there, at a later save.
            to("file", x)
            settle()
            return rt.stats().file_bytes > 0

        # Before backward, which gives up the writes that it overtakes.
        assert not to_files or eventually(reached_a_file)
        y.sum().backward()
        assert_same(gradient(lambda t: fn(fn(fn(fn(t)))), x.detach()), x.grad)
        assert to_files or rt.stats().file_bytes == 0


def test_groups_around_swapped_regions_still_move(setting, manager):
    """What a group takes outside a checkpoint is what it took before."""
    x = setting.leaf(64)
    with manager.group_context("g"):
        loss = rt.swap(torch.exp, x, policy_fn=must_swap).sum()
    manager.launch_offload("g")
    assert rt.stats().bytes_out == 256
    manager.wait_offload("g")
    loss.backward()
    assert_same(gradient(torch.exp, x.detach()), x.grad)
