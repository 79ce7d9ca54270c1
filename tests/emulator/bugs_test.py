"""Each classic bug in torch code, and the same program done right."""

import contextlib
import gc

import pytest
import torch

import restow.emulator as emu

N = 256


def kinds():
    """The races found, taken away from the check at the end of the test."""
    found = [race.kind for race in emu.races()]
    emu.clear_races()
    return found


def pinned(value):
    return torch.full((N,), float(value)).pin_memory()


@pytest.fixture(params=["early", "late", "random"])
def schedule(request):
    emu.configure(schedule=request.param, seed=1)
    return request.param


def test_missing_wait_before_use(schedule):
    side = torch.Stream(device="emu")
    host, x = pinned(7), torch.empty(N, device="emu")
    with side:
        x.copy_(host, non_blocking=True)
    y = x + 1
    assert kinds() == ["missing wait before use"]
    if schedule == "late":
        assert y.isnan().all()
    side.synchronize()


def test_use_after_a_wait():
    side = torch.Stream(device="emu")
    host, x = pinned(7), torch.empty(N, device="emu")
    with side:
        x.copy_(host, non_blocking=True)
    torch.accelerator.current_stream().wait_stream(side)
    assert ((x + 1) == 8).all()


def test_missing_wait_before_reuse(schedule):
    side = torch.Stream(device="emu")
    x, host = torch.full((N,), 3.0, device="emu"), pinned(0)
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        host.copy_(x, non_blocking=True)
    x.fill_(4.0)
    assert kinds() == ["missing wait before reuse"]
    side.synchronize()
    if schedule == "late":
        assert (host == 4).all()


def test_early_free(schedule):
    side = torch.Stream(device="emu")
    x, host = torch.full((N,), 3.0, device="emu"), pinned(0)
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        host.copy_(x, non_blocking=True)
    del x
    gc.collect()
    assert kinds() == ["early free"]
    side.synchronize()
    if schedule == "late":
        assert host.isnan().all()


@pytest.mark.parametrize("how", ["record_stream", "event"])
def test_a_free_behind_the_copy(how):
    side = torch.Stream(device="emu")
    x, host = torch.full((N,), 3.0, device="emu"), pinned(0)
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        host.copy_(x, non_blocking=True)
        done = side.record_event()
    if how == "record_stream":
        x.record_stream(side)
    else:
        torch.accelerator.current_stream().wait_event(done)
    del x
    done.synchronize()
    assert (host == 3).all()


def test_wrong_stream(schedule):
    side, other = torch.Stream(device="emu"), torch.Stream(device="emu")
    host, x = pinned(7), torch.empty(N, device="emu")
    with side:
        x.copy_(host, non_blocking=True)
    torch.accelerator.current_stream().wait_stream(other)
    y = x * 2
    assert kinds() == ["missing wait before use"]
    if schedule == "late":
        assert y.isnan().all()
    side.synchronize()


def test_host_block_reused_early(schedule):
    host, x = pinned(7), torch.empty(N, device="emu")
    x.copy_(host, non_blocking=True)
    host.fill_(8)
    assert kinds() == ["host block reused early"]
    if schedule == "late":
        assert (x == 8).all()


def test_host_block_read_early(schedule):
    x, host = torch.full((N,), 3.0, device="emu"), pinned(0)
    host.copy_(x, non_blocking=True)
    seen = host.sum().item()
    assert kinds() == ["host block read early"]
    if schedule == "late":
        assert seen == 0
    torch.accelerator.synchronize()
    assert host.sum().item() == 3 * N


def test_a_host_block_may_be_dropped_while_its_copy_is_under_way():
    host, x = pinned(7), torch.empty(N, device="emu")
    x.copy_(host, non_blocking=True)
    del host
    assert (x == 7).all()


def test_read_after_free(schedule):
    x = torch.full((N,), 3.0, device="emu")
    storage = torch._C._construct_storage_from_data_pointer(x.data_ptr(), x.device, 4 * N)
    stale = torch.empty(0, device="emu").set_(storage, 0, (N,), (1,))
    del x
    assert (stale + 1).isnan().all()
    assert set(kinds()) == {"read after free"}


def test_an_unordered_write_between_operators(schedule):
    side = torch.Stream(device="emu")
    x = torch.zeros(N, device="emu")
    with side:
        x.add_(1)
    assert kinds() == ["missing wait before use", "missing wait before reuse"]
    side.synchronize()


def test_a_race_names_operators_streams_and_the_tensor():
    side = torch.Stream(device="emu")
    a = torch.ones(4, 8, device="emu")
    b = a @ a.t()
    with side:
        b.exp()
    (race,) = emu.races()
    emu.clear_races()
    assert race.first.startswith("aten::mm on emu:0 stream 0")
    assert race.second.startswith("aten::exp on emu:0 stream ")
    assert "Float[4, 4] of emu:0" in race.tensor
    assert str(race).startswith("missing wait before use: aten::exp")
    side.synchronize()


def test_disjoint_views_of_one_storage_do_not_race():
    side = torch.Stream(device="emu")
    x = torch.zeros(8, 8, device="emu")
    side.wait_stream(torch.accelerator.current_stream())
    x[:, :4].fill_(1)
    with side:
        x[:, 4:].fill_(2)
    torch.accelerator.current_stream().wait_stream(side)
    assert x.sum().item() == 32 + 64


def test_backward_on_side_streams_is_ordered_by_autograd():
    start = torch.randn(N)

    def gradient(x, side):
        if side is not None:
            side.wait_stream(torch.accelerator.current_stream())
        with side or contextlib.nullcontext():
            y = (x.exp() * 2).sin()
        if side is not None:
            torch.accelerator.current_stream().wait_stream(side)
        (y * 3).sum().backward()
        return x.grad.cpu()

    expected = gradient(start.clone().requires_grad_(), None)
    on_emu = start.to("emu").requires_grad_()
    assert torch.equal(gradient(on_emu, torch.Stream(device="emu")), expected)
