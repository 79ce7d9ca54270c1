"""What is saved comes back, or its change is reported: cases 1 to 7 of the tricky semantics."""

import pytest
import torch
from helpers import (
    RECOMPUTES,
    SWAPS,
    WAYS,
    assert_same,
    eventually,
    expect_changes_under_a_copy,
    gradients,
    message_of,
    plain,
)
from torch.nn import functional

import restow
import restow.torch as rt

SAVE_THEIR_OUTPUT = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "sqrt": lambda x: x.abs().sqrt(),
}


@pytest.mark.parametrize("operator", SAVE_THEIR_OUTPUT)
def test_case_01_saved_outputs_come_back(setting, operator):
    def scenario(run):
        x = setting.leaf(6, 5)
        y = run(SAVE_THEIR_OUTPUT[operator], x)
        (y * setting.random(6, 5)).sum().backward()
        return gradients(x) + [y.detach()]

    setting.compare(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_case_01_a_graph_of_saved_outputs_dies_with_its_last_reference(setting, way):
    x = setting.leaf(6, 5)
    y = WAYS[way](lambda t: t.softmax(-1).exp().sigmoid(), x)
    if way in SWAPS:
        assert rt.stats().units == 3
    del y
    assert eventually(lambda: rt.stats().units == 0)


def change_inside(run, x):
    def fn(t):
        y = t.exp()
        z = y * 2
        y.add_(1)
        return z + y

    return run(fn, x)


def change_outside(run, x):
    y = run(torch.exp, x)
    z = y * 2
    y.add_(1)
    return z + y


@pytest.mark.parametrize("change", [change_inside, change_outside])
@pytest.mark.parametrize("way", ["swap", "region", "keep"])
def test_case_02_in_place_after_save_names_the_operator(setting, way, change):
    x = setting.leaf(6, 5)
    y = change(WAYS[way], x)
    text = message_of(restow.ModifiedInPlace, y.sum().backward)
    assert "Exp" in text
    assert x.grad is None
    expect_changes_under_a_copy()


@pytest.mark.parametrize("way", ["checkpoint", "checkpoint_swapped"])
def test_case_02_in_place_on_the_input_of_a_recomputed_region_is_an_error(setting, way):
    x = setting.leaf(6, 5)
    h = x * 2
    y = WAYS[way](lambda t: (t * 3).exp(), h)
    h.add_(1)
    message_of(restow.ModifiedInPlace, y.sum().backward)
    assert x.grad is None
    expect_changes_under_a_copy()


def test_case_02_the_same_without_a_change_passes(setting):
    def scenario(run):
        x = setting.leaf(6, 5)
        y = run(torch.exp, x)
        z = y * 2
        (z + y.add(1)).sum().backward()
        return gradients(x)

    setting.compare(scenario)


def test_case_02_in_place_before_the_save_passes(setting):
    def scenario(run):
        x = setting.leaf(6, 5)

        def fn(t):
            y = t * 2
            y.add_(1)
            y[0].mul_(3)
            return y.sin() * y

        run(fn, x).sum().backward()
        return gradients(x)

    setting.compare(scenario)


def test_case_02_a_tensor_saved_before_and_after_a_change_is_two(setting):
    x = setting.leaf(6, 5)

    def fn(t):
        y = t * 2
        first = y.sin()
        y.add_(1)
        return first, y.cos()

    first, second = WAYS["swap"](fn, x)
    second.sum().backward()
    expected = -(x.detach() * 2 + 1).sin() * 2
    assert_same([expected], gradients(x))
    message_of(restow.ModifiedInPlace, first.sum().backward)
    expect_changes_under_a_copy()


def test_case_03_a_bias_added_in_place_to_a_matrix_product(setting):
    """`x @ w` of three dimensions is a view that shares no version with the product it views."""

    def scenario(run):
        x, w, b = setting.leaf(2, 3, 4), setting.leaf(4, 5), setting.leaf(5)

        def fn(x, w, b):
            y = x @ w
            y += b
            return y.tanh() * y

        run(fn, x, w, b).sum().backward()
        return gradients(x, w, b)

    setting.compare(scenario)


def test_case_03_a_kept_product_that_is_changed_through_its_view_is_not_stale(setting):
    kept = torch.ops.aten.mm.default

    def policy(ctx, op, *args, **kwargs):
        policies = rt.CheckpointPolicy
        return policies.MUST_SAVE if op is kept else policies.PREFER_RECOMPUTE

    def scenario(run):
        x, w, b = setting.leaf(2, 3, 4), setting.leaf(4, 5), setting.leaf(5)

        def fn(x, w, b):
            y = x.sin() @ w
            y += b
            return y.tanh() * y

        keywords = {} if run is plain else {"policy_fn": policy}
        run(fn, x, w, b, **keywords).sum().backward()
        return gradients(x, w, b)

    setting.compare(scenario, ["checkpoint"])


@pytest.mark.parametrize("way", WAYS)
def test_case_04_backward_may_come_again_until_the_graph_is_freed(setting, way):
    x, weight = setting.leaf(6, 5), setting.random(6, 5)
    y = WAYS[way](lambda t: (t * 2).exp().tanh() * t, x)
    loss = (y * weight).sum()
    seen = []
    for keeps in (True, True, False):
        loss.backward(retain_graph=keeps)
        seen += gradients(x)
        x.grad = None
    assert_same(seen[0], seen[1])
    assert_same(seen[0], seen[2])
    t = x.detach().requires_grad_()
    ((t * 2).exp().tanh() * t * weight).sum().backward()
    assert_same(t.grad, seen[0])
    assert rt.stats().units == 0, "the backward that frees the graph frees what it saved"
    text = message_of(RuntimeError, loss.backward)
    assert "second time" in text
    assert x.grad is None


@pytest.mark.parametrize("twice", ["first pass inside", "second pass inside", "both inside"])
def test_case_05_double_backward(setting, twice):
    def scenario(run):
        x, w = setting.leaf(4, 5), setting.leaf(5, 5)

        def forward(x, w):
            return ((x @ w).tanh() * x).exp().sum()

        def differentiate(loss):
            return torch.autograd.grad(loss, [x, w], create_graph=True)

        loss = forward(x, w) if twice == "second pass inside" else run(forward, x, w)
        grads = differentiate(loss) if twice == "first pass inside" else run(differentiate, loss)
        sum(g.square().sum() for g in grads).backward()
        return [g.detach() for g in grads] + gradients(x, w)

    # A function that runs a backward itself cannot be recomputed: its graph is gone.
    ways = WAYS if twice == "first pass inside" else ("swap", "region", "keep")
    setting.compare(scenario, ways)


class ReadsTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(None, x, x.exp())
        ctx.scale = scale
        return x.exp() * scale

    @staticmethod
    def backward(ctx, grad):
        nothing, x, y = ctx.saved_tensors
        assert nothing is None
        _, again, _ = ctx.saved_tensors
        return grad * y * ctx.scale + 0 * (x - again), None


class ReturnsItsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x, x * y

    @staticmethod
    def backward(ctx, grad_x, grad_product):
        x, y = ctx.saved_tensors
        return grad_x + grad_product * y, grad_product * x


class ChangesItsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * 2 + 0 * y


def test_case_06_a_function_that_reads_what_it_saved_twice(setting):
    def scenario(run):
        x = setting.leaf(4, 5)
        run(lambda t: ReadsTwice.apply(t * 2, 1.5), x).sum().backward()
        return gradients(x)

    setting.compare(scenario)


def test_case_06_an_input_returned_as_an_output(setting):
    def scenario(run):
        x, y = setting.leaf(4, 5), setting.leaf(4, 5)
        a, b = run(lambda x, y: ReturnsItsInput.apply(x * 2, y * 3), x, y)
        (a * b).sum().backward()
        return gradients(x, y)

    setting.compare(scenario)


def test_case_06_an_input_changed_by_a_function_that_saves_it(setting):
    def scenario(run):
        x = setting.leaf(4, 5)
        run(lambda t: ChangesItsInput.apply(t.sin()), x).sum().backward()
        return gradients(x)

    setting.compare(scenario)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in RECOMPUTES])
def test_case_07_saved_tensors_can_be_read_through_the_node(setting, way):
    x = setting.leaf(4, 5)
    reads = []

    def fn(t):
        y = (t * 2).exp()
        # Its copy out may be under way.
        reads.append(y.grad_fn._saved_result.detach().clone())
        return y

    y = WAYS[way](fn, x)
    reads.append(y.grad_fn._saved_result.detach().clone())
    y.sum().backward()
    expected = (x.detach() * 2).exp()
    assert_same([expected, expected, expected * 2], reads + gradients(x))
    assert "freed" in message_of(RuntimeError, getattr, y.grad_fn, "_saved_result")


def test_case_07_saved_tensors_of_a_recomputed_region_can_be_read(setting):
    def scenario(run):
        x = setting.leaf(4, 5)
        y = run(lambda t: (t * 2).exp() * t, x)
        read = y.grad_fn._saved_self.detach().clone()
        y.sum().backward()
        return [read] + gradients(x)

    setting.compare(scenario)


def test_case_07_reading_takes_the_recorded_operator_not_the_copy(setting):
    """An operator between save and read runs on the tensor that is still there."""

    def scenario(run):
        x = setting.leaf(8, 8)

        def fn(t):
            y = functional.gelu(t * 3)
            return y + functional.gelu(y).sum()

        run(fn, x).sum().backward()
        return gradients(x)

    setting.compare(scenario)
