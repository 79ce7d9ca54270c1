"""Bad use and faults: a clear error or a stated fallback, and nothing left behind."""

import pytest
import torch
from helpers import (
    SWAPS,
    WAYS,
    Boom,
    assert_same,
    boom,
    checkpoint,
    eventually,
    expect_changes_under_a_copy,
    gradients,
    message_of,
    must_swap,
    script,
    swap,
)
from torch import nn

import restow
import restow.emulator as emu
import restow.torch as rt


def work(t):
    return (t * 2).exp().sin() * t


def gradient_of_work(x):
    t = x.detach().requires_grad_()
    work(t).sum().backward()
    return gradients(t)


NO_TIER = """
import torch
import restow
import restow.torch as rt

x = torch.randn(4, 4, requires_grad=True)
must = lambda t: rt.CheckpointPolicy.MUST_SWAP
def region():
    with rt.region("swap", policy_fn=must):
        return x.exp()
def wrapper():
    return rt.swap_wrapper(torch.nn.Linear(4, 4), must)(x)
for call in (lambda: rt.swap(torch.exp, x, policy_fn=must), region, wrapper):
    try:
        call()
    except restow.Unsupported as error:
        assert "file_dir" in str(error), error
    else:
        raise AssertionError("swap without effect was taken")
assert rt.stats().units == 0
y = rt.checkpoint(torch.exp, x)
with rt.region("keep"):
    y = y * x
y.sum().backward()
with restow.disabled():
    rt.swap(torch.exp, x, policy_fn=must).sum().backward()
print("done")
"""


def test_swap_that_cannot_have_an_effect_is_refused_with_the_remedy():
    done = script(NO_TIER)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_the_environment_names_the_file_tier_and_switches_the_engine_off(tmp_path):
    code = """
import torch
import restow.torch as rt
x = torch.randn(512, 1024, requires_grad=True)
y = rt.swap(torch.exp, x * 1)
print(rt.stats().bytes_out)
y.sum().backward()
"""
    done = script(code, RESTOW_FILE_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{512 * 1024 * 4}\n"), done.stderr
    done = script(code, RESTOW_ENABLED="0")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_disabled_regions_are_plain_calls(setting):
    x = setting.leaf(4, 5)
    rt.reset_stats()
    with restow.disabled():
        for way in WAYS.values():
            y = way(work, x)
            assert eventually(lambda: rt.stats().units == 0)
            y.sum().backward()
            assert_same(gradient_of_work(x), gradients(x))
            x.grad = None
    assert rt.stats().bytes_out == 0 and rt.stats().recomputed_regions == 0


ANSWERS = {
    "none": None,
    "true": True,
    "a word": "MUST_SWAP",
    "prefer save": rt.CheckpointPolicy.PREFER_SAVE,
    "prefer recompute": rt.CheckpointPolicy.PREFER_RECOMPUTE,
    "must recompute": rt.CheckpointPolicy.MUST_RECOMPUTE,
    "another enumeration's": torch.utils.checkpoint.CheckpointPolicy.PREFER_SAVE,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_unknown_answer_of_a_policy_is_an_error_that_shows_it(setting, answer):
    x = setting.leaf(4, 5)
    value = ANSWERS[answer]
    kinds = (restow.Error, TypeError, ValueError)
    text = message_of(kinds[0], rt.swap, work, x * 1, policy_fn=lambda t: value)
    shown = getattr(value, "name", repr(value))
    assert shown in text
    assert eventually(lambda: rt.stats().units == 0)
    swap(work, x).sum().backward()
    assert_same(gradient_of_work(x), gradients(x))


def test_torchs_own_answers_are_taken(setting):
    torchs = torch.utils.checkpoint.CheckpointPolicy
    x = setting.leaf(4, 5)
    rt.reset_stats()
    rt.swap(work, x, policy_fn=lambda t: torchs.MUST_SAVE).sum().backward()
    assert rt.stats().bytes_out == 0
    assert_same(gradient_of_work(x), gradients(x))


def test_a_policy_is_asked_once_per_eligible_tensor_saved(setting):
    weight = nn.Parameter(setting.random(5, 5))
    asked = []

    def policy(t):
        asked.append(tuple(t.shape))
        return rt.CheckpointPolicy.MUST_SWAP

    x = setting.leaf(4, 5) * 1
    # The product saves x and a view of the weight, tanh its result, mul both of its factors.
    y = rt.swap(lambda t: (t @ weight).tanh() * t, x, policy_fn=policy)
    assert asked == [(4, 5)] * 4
    y.sum().backward()
    assert asked == [(4, 5)] * 4, "nobody asks again in backward"


def test_an_exception_in_a_policy_reaches_the_user_and_nothing_stays(setting):
    x = setting.leaf(4, 5)
    answers = iter([rt.CheckpointPolicy.MUST_SWAP])

    def policy(t):
        try:
            return next(answers)
        except StopIteration:
            raise Boom("in a policy") from None

    with boom():
        rt.swap(work, x, policy_fn=policy)
    assert eventually(lambda: rt.stats().units == 0)
    swap(work, x).sum().backward()
    assert_same(gradient_of_work(x), gradients(x))


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_in_forward_leaves_nothing(setting, way):
    x = setting.leaf(4, 5)

    def fails(t):
        t = work(t)
        raise Boom(str(t.shape))

    for _ in range(3):
        with boom():
            WAYS[way](fails, x)
        assert eventually(lambda: rt.stats().units == 0)
    WAYS[way](work, x).sum().backward()
    assert_same(gradient_of_work(x), gradients(x))


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_in_a_hook_of_backward_leaves_nothing(setting, way):
    x = setting.leaf(4, 5)

    def refuse(grad):
        raise Boom("in a hook")

    def fn(t):
        y = work(t)
        if y.requires_grad:
            y.register_hook(refuse)
        return work(y)

    y = WAYS[way](fn, x)
    with boom():
        y.sum().backward()
    del y
    assert eventually(lambda: rt.stats().units == 0)
    assert x.grad is None


@pytest.mark.parametrize("way", ["checkpoint", "checkpoint_swapped"])
def test_an_exception_in_a_recompute_reaches_the_user(setting, way):
    x = setting.leaf(4, 5)

    def fn(t):
        y = work(t)
        if rt.is_recomputing():
            raise Boom("in a recompute")
        return work(y)

    y = WAYS[way](fn, x)
    with boom():
        y.sum().backward()
    assert not rt.is_recomputing()
    del y
    assert eventually(lambda: rt.stats().units == 0)


def test_an_exception_out_of_a_region_closes_it(setting):
    x = setting.leaf(4, 5)
    with boom(), rt.region("swap", policy_fn=must_swap), rt.group("g"):
        raise Boom("between")
    rt.reset_stats()
    y = work(x)
    assert rt.stats().bytes_out == 0, "what is saved outside is nobody's"
    y.sum().backward()
    assert_same(gradient_of_work(x), gradients(x))


@pytest.mark.parametrize("mode", ["recompute", "swapp", "", None])
def test_a_mode_a_region_does_not_have_is_refused_by_name(setting, mode):
    def enter():
        with rt.region(mode):
            raise AssertionError("entered")

    kinds = (restow.Error, TypeError, ValueError)
    try:
        enter()
    except kinds as error:
        assert repr(mode).strip("'\"") in str(error)
    else:
        raise AssertionError("taken")


@pytest.mark.parametrize("way", WAYS)
def test_graphs_dropped_without_backward_leave_nothing(setting, way):
    x = setting.leaf(32, 32)
    for _ in range(3):
        y = WAYS[way](work, x)
        del y
        assert eventually(lambda: rt.stats().units == 0)


def test_a_slot_that_outlives_its_region_and_its_inputs_works(setting):
    expected = []

    def forward():
        x = setting.leaf(8, 8)
        y = swap(work, x * 1)
        expected.extend(gradient_of_work(x))
        return y, x

    y, x = forward()
    y.sum().backward()
    assert_same(expected, gradients(x))


@pytest.mark.parametrize("way", SWAPS)
def test_a_tensor_changed_while_its_copy_out_is_in_flight_is_found_out(emu_setting, way):
    emu.configure(d2h="1KB/s")
    x = emu_setting.leaf(8, 8)
    h = x * 2
    y = WAYS[way](torch.sin, h)
    h.add_(1)
    message_of(restow.ModifiedInPlace, y.sum().backward)
    del y
    expect_changes_under_a_copy()


def test_non_deterministic_recompute_names_what_differs(setting):
    flips = iter([True, False])

    def fn(t):
        if next(flips):
            return t[:3].exp().sum()
        return t[:2].exp().sum()

    x = setting.leaf(4, 5)
    y = checkpoint(fn, x)
    text = message_of(restow.NotDeterministic, y.backward)
    assert "3, 5" in text and "2, 5" in text
    assert x.grad is None


WRONG = {
    "host_cap": "a lot",
    "window": "-1GiB",
    "min_bytes": -5,
    "hooks": "both",
    "file_cap": "3 parsecs",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_that_makes_no_sense_is_refused_and_changes_nothing(setting, name):
    kinds = (restow.Error, TypeError, ValueError)
    try:
        rt.configure(**{name: WRONG[name]})
    except kinds as error:
        assert str(WRONG[name]).lstrip("-").split()[0] in str(error) or name in str(error)
    else:
        raise AssertionError("taken")
    x = setting.leaf(4, 5)
    swap(work, x).sum().backward()
    assert_same(gradient_of_work(x), gradients(x))


NO_FOLDER = """
import torch
import restow.torch as rt
x = torch.ones(4, requires_grad=True)
try:
    rt.configure(file_dir="/nonexistent/folder")
    rt.swap(torch.exp, x * 1, policy_fn=lambda t: rt.CheckpointPolicy.MUST_SWAP)
except Exception as error:
    assert "/nonexistent/folder" in str(error), error
    print("refused")
"""


def test_a_file_directory_that_does_not_exist_is_refused_by_name():
    done = script(NO_FOLDER)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_a_marked_tensor_outside_any_region_warns_once_per_tag(setting):
    x = setting.leaf(4, 5)
    tag = f"mark {setting.device} {setting.schedule} {setting.hooks}"
    with pytest.warns(UserWarning, match=tag) as caught:
        assert rt.swap_tensor_wrapper(x, tag=tag) is x
        assert rt.swap_tensor_wrapper(x, tag=tag) is x
    assert len(caught) == 1


def test_marked_tensors_of_any_nesting_move_whatever_their_size(setting):
    rt.configure(min_bytes="1GiB")
    x = setting.leaf(4, 5)
    rt.reset_stats()
    with rt.region("swap"):
        inner = {"a": [x * 2], "b": (x * 3, None)}
        assert rt.swap_tensor_wrapper(inner, tag="nested") is inner
        y = inner["a"][0].sin() + inner["b"][0].sin() + (x * 4).sin()
    # The two marked ones; the third is smaller than the threshold.
    assert rt.stats().bytes_out == 2 * x.nbytes
    y.sum().backward()
    t = x.detach().requires_grad_()
    ((t * 2).sin() + (t * 3).sin() + (t * 4).sin()).sum().backward()
    assert_same(gradients(t), gradients(x))


def test_what_is_not_built_yet_is_refused_by_name():
    with pytest.raises(restow.Unsupported, match="fit is not available"):
        rt.fit(torch.nn.Linear(2, 2), lambda: None, budget="20GiB")
