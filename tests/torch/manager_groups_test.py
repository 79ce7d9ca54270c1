"""Groups steered by hand: every call in turn, and every call out of turn."""

import threading

import pytest
import torch
from helpers import assert_same, gradients, message_of, must_swap, settle

import restow
import restow.emulator as emu
import restow.torch as rt
from restow.torch._load import native


@pytest.fixture(autouse=True)
def manager():
    """Every test leaves no group and no active group behind."""
    yield rt.SwapManager()
    rt.SwapManager().reset()
    assert rt.SwapManager().active_group_count() == 0
    assert native.group_names() == []
    assert rt.SwapManager().get_current_group_name() is None


CALLS = ("launch_offload", "wait_offload", "launch_load", "wait_load")
BYTES = 4 * 64


def forward(x, group, **keywords):
    """One tensor of `BYTES` bytes is saved in the group: the exponential's result."""
    with rt.SwapManager().group_context(group):
        return rt.swap(torch.exp, x, policy_fn=must_swap, **keywords).sum()


def expected(x):
    twin = x.detach().clone().requires_grad_()
    twin.exp().sum().backward()
    return twin.grad


def test_every_manager_is_the_same_one():
    assert rt.SwapManager() is rt.SwapManager()


def test_a_group_moves_when_it_is_told_and_not_before(setting, manager):
    x = setting.leaf(64)
    loss = forward(x, "g")
    assert rt.stats().bytes_out == 0
    for call, out, back in (
        ("launch_offload", BYTES, 0),
        ("wait_offload", BYTES, 0),
        ("launch_load", BYTES, BYTES),
        ("wait_load", BYTES, BYTES),
    ):
        getattr(manager, call)("g")
        assert (rt.stats().bytes_out, rt.stats().bytes_in) == (out, back)
    loss.backward()
    assert_same(expected(x), x.grad)
    assert rt.stats().demand_loads == 0


def test_waiting_for_the_offload_gives_the_device_memory_up(emu_setting, manager):
    x = emu_setting.leaf(1 << 16)
    loss = forward(x, "g")
    before = emu.memory_allocated()
    manager.launch_offload("g")
    manager.wait_offload("g")
    torch.accelerator.synchronize()
    assert before - emu.memory_allocated() == 4 << 16
    manager.launch_load("g")
    manager.wait_load("g")
    assert emu.memory_allocated() == before
    loss.backward()


@pytest.mark.parametrize("count", range(5))
def test_what_is_used_early_comes_back_at_its_use(setting, manager, count):
    x = setting.leaf(64)
    loss = forward(x, "g")
    for call in CALLS[:count]:
        getattr(manager, call)("g")
    loss.backward()
    assert_same(expected(x), x.grad)


ALLOWED = {
    (): ("launch_offload",),
    CALLS[:1]: ("wait_offload",),
    CALLS[:2]: ("launch_offload", "launch_load"),
    CALLS[:3]: ("wait_load",),
    CALLS: ("launch_offload",),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("done", ALLOWED, ids=len)
def test_a_call_out_of_turn_says_what_is_allowed_and_changes_nothing(setting, manager, done, call):
    x = setting.leaf(64)
    loss = forward(x, "g")
    for each in done:
        getattr(manager, each)("g")
    if call in ALLOWED[done]:
        getattr(manager, call)("g")
    else:
        before = rt.stats()
        message = message_of(restow.Error, getattr(manager, call), "g")
        assert message.startswith(f"{call}('g') is out of order: ")
        assert message.endswith("allowed now: " + " or ".join(ALLOWED[done]))
        assert (rt.stats().bytes_out, rt.stats().bytes_in) == (before.bytes_out, before.bytes_in)
        for each in CALLS[len(done) :]:
            getattr(manager, each)("g")
    loss.backward()
    assert_same(expected(x), x.grad)


@pytest.mark.parametrize(
    "call", [*CALLS, "release_group_storage", "abort_group", "protect_alias_tensors", "add_storage"]
)
def test_an_unknown_group_is_refused_with_the_nearest_name(manager, call):
    manager.ensure_group("layer_1")
    arguments = () if call in (*CALLS, "release_group_storage", "abort_group") else ([],)
    message = message_of(restow.Error, getattr(manager, call), "layer_7", *arguments)
    assert f"{call}: no group is called 'layer_7'; did you mean 'layer_1'?" in message


def test_a_stream_of_the_callers_is_refused(manager):
    manager.ensure_group("g")
    message = message_of(restow.Unsupported, manager.launch_offload, "g", object())
    assert "streams of its own" in message
    assert manager.ensure_group("g").state == "idle"


@pytest.mark.parametrize("name", ["", None, 3, "a#1"])
def test_names_that_are_none_are_refused(manager, name):
    assert "group name" in message_of(restow.InputError, manager.ensure_group, name)


def test_a_group_in_which_nothing_was_saved_takes_all_calls(manager):
    group = manager.ensure_group("g")
    for call in CALLS:
        getattr(group, call)()
    assert group.state == "idle"


def test_micro_batches_with_a_group_each_come_back_one_by_one(setting, manager):
    xs = [setting.leaf(64) for _ in range(3)]
    losses = [forward(x, f"stage0/{index}") for index, x in enumerate(xs)]
    for index in range(3):
        manager.launch_offload(f"stage0/{index}")
        manager.wait_offload(f"stage0/{index}")
    for done, index in enumerate((1, 0, 2)):
        manager.launch_load(f"stage0/{index}")
        manager.wait_load(f"stage0/{index}")
        assert rt.stats().bytes_in == (done + 1) * BYTES
        losses[index].backward()
    assert rt.stats().demand_loads == 0
    for x in xs:
        assert_same(expected(x), x.grad)


def test_micro_batches_that_share_a_group_come_back_together(setting, manager):
    xs = [setting.leaf(64) for _ in range(2)]
    losses = []
    for x in xs:
        losses.append(forward(x, "g"))
        manager.launch_offload("g")
        manager.wait_offload("g")
    for loss in losses:
        manager.launch_load("g")
        manager.wait_load("g")
        assert rt.stats().bytes_in == 2 * BYTES
        loss.backward()
    for x in xs:
        assert_same(expected(x), x.grad)
    message = message_of(restow.Error, manager.launch_load, "g")
    assert "nothing was offloaded" in message


def test_one_group_spans_pools_and_devices(setting, manager):
    """Each pool has an engine of its own."""
    x, y, z = setting.leaf(64), setting.leaf(64), torch.randn(64).requires_grad_()
    loss = forward(x, "g") + forward(y, "g", cpu_pool=rt.HostPool("1MiB")) + forward(z, "g").to(
        setting.device
    )
    for call in CALLS:
        getattr(manager, call)("g")
    assert (rt.stats().bytes_out, rt.stats().bytes_in) == (3 * BYTES, 3 * BYTES)
    loss.backward()
    for leaf in (x, y, z):
        assert_same(expected(leaf), leaf.grad)


def test_what_is_saved_after_a_launch_waits_for_the_next(setting, manager):
    x, y = setting.leaf(64), setting.leaf(64)
    first = forward(x, "g")
    manager.launch_offload("g")
    second = forward(y, "g")
    manager.wait_offload("g")
    assert rt.stats().bytes_out == BYTES
    manager.launch_offload("g")
    manager.wait_offload("g")
    assert rt.stats().bytes_out == 2 * BYTES
    (first + second).backward()
    assert_same([expected(x), expected(y)], gradients(x, y))


def test_a_released_group_begins_anew_and_its_tensors_come_back_at_their_use(setting, manager):
    x = setting.leaf(64)
    loss = forward(x, "g")
    manager.launch_offload("g")
    manager.wait_offload("g")
    manager.release_group_storage("g")
    assert manager.ensure_group("g").state == "idle"
    assert "launch_offload" in message_of(restow.Error, manager.launch_load, "g")
    loss.backward()
    assert_same(expected(x), x.grad)


@pytest.mark.parametrize("count", range(5))
def test_a_group_may_be_aborted_at_any_time(setting, manager, count):
    x = setting.leaf(64)
    loss = forward(x, "g")
    for call in CALLS[:count]:
        getattr(manager, call)("g")
    manager.abort_group("g")
    assert manager.active_group_count() == 0
    loss.backward()
    assert_same(expected(x), x.grad)


def test_an_abort_drops_what_nobody_will_use(setting, manager):
    loss = forward(setting.leaf(64), "g")
    manager.launch_offload("g")
    del loss
    manager.abort_group("g")
    settle()
    assert rt.stats().host_used_bytes == 0


def test_the_active_group_is_that_of_the_context_and_the_thread(manager):
    seen = []
    with manager.group_context("outer") as group:
        assert isinstance(group, rt.SwapGroup)
        with manager.group_context("inner"):
            thread = threading.Thread(target=lambda: seen.append(manager.get_current_group_name()))
            thread.start()
            thread.join(60)
            seen.append(manager.get_current_group_name())
        seen.append(manager.get_current_group_name())
    assert seen == [None, "inner", "outer"]
    manager.set_current_group_name("set")
    assert manager.get_current_group_name() == "set"
    assert not manager.is_last_group()
    manager.set_current_group_name(None)
    assert manager.get_current_group_name() is None


def test_a_group_that_was_set_holds_what_regions_save(setting, manager):
    x = setting.leaf(64)
    manager.set_current_group_name("g")
    loss = rt.swap(torch.exp, x, policy_fn=must_swap).sum()
    manager.set_current_group_name(None)
    for call in CALLS:
        getattr(manager, call)("g")
    assert rt.stats().bytes_out == BYTES
    loss.backward()
    assert_same(expected(x), x.grad)


def test_tensors_added_to_a_group_move_with_it(setting, manager):
    def program(x, add):
        y = x * 2
        add(y)
        return (y.cos() + y.sin() + x.exp()).sum()  # y is saved twice, exp's result stays

    x = setting.leaf(64)
    twin = x.detach().clone().requires_grad_()
    program(twin, lambda y: None).backward()
    with manager.group_context("g"):
        loss = program(x, lambda y: manager.add_storage("g", {"tensors": [y]}))
    for call in CALLS:
        getattr(manager, call)("g")
    assert (rt.stats().bytes_out, rt.stats().bytes_in) == (BYTES, BYTES)
    loss.backward()
    assert_same(twin.grad, x.grad)


def test_storages_are_added_to_the_active_group_only(setting, manager):
    manager.ensure_group("a")
    tensor = setting.random(8)
    message = message_of(restow.Error, manager.add_storage, "a", tensor)
    assert message == "add_storage('a'): no group is active; allowed inside group_context('a')"
    with manager.group_context("b"):
        message = message_of(restow.Error, manager.add_storage, "a", tensor)
    assert "the active group is 'b'" in message
    manager.set_current_group_name("a")
    assert "no region is open" in message_of(restow.Error, manager.add_storage, "a", tensor)
    manager.set_current_group_name(None)


def test_aliases_need_no_protection(setting, manager):
    """What someone else holds keeps its memory and its bytes while the group is away."""
    x = setting.leaf(64)
    with manager.group_context("g"):
        y = rt.swap(torch.exp, x, policy_fn=must_swap)
    manager.protect_alias_tensors("g", [y])
    before = y.detach().clone()
    manager.launch_offload("g")
    manager.wait_offload("g")
    assert_same(before, y.detach())
    y.sum().backward()
    assert_same(expected(x), x.grad)


def test_a_change_while_the_group_is_away_is_found(setting, manager):
    x = setting.leaf(64)
    with manager.group_context("g"):
        y = rt.swap(torch.exp, x, policy_fn=must_swap)
    manager.launch_offload("g")
    manager.wait_offload("g")
    torch.accelerator.synchronize()
    with torch.no_grad():
        y.mul_(2)
    assert "in place" in message_of(restow.ModifiedInPlace, y.sum().backward)
    del y


def test_a_group_that_nobody_steers_is_only_a_name(setting):
    x = setting.leaf(64)
    with rt.group("plain"):
        loss = rt.swap(torch.exp, x, policy_fn=must_swap).sum()
    assert rt.stats().bytes_out == BYTES
    loss.backward()
    assert_same(expected(x), x.grad)
    # No manager knows it; the engine keeps the name until it is dropped.
    native.group_drop("plain")


def test_reset_takes_every_group_away(setting, manager):
    x = setting.leaf(64)
    loss = forward(x, "g")
    manager.launch_offload("g")
    manager.set_current_group_name("h")
    manager.reset()
    assert manager.active_group_count() == 0
    assert manager.get_current_group_name() is None
    loss.backward()
    assert_same(expected(x), x.grad)
