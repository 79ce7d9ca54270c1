"""What users of other offloading tools reported: composition with other tools (B26 to B49)."""

import pytest
import torch
from helpers import (
    ROOT,
    WAYS,
    assert_same,
    checkpoint,
    expect_changes_under_a_copy,
    explained,
    gradients,
    message_of,
    must_swap,
    script,
    swap,
)
from torch import nn
from torch.utils import checkpoint as torch_checkpoint

import restow
import restow.torch as rt


def test_b26_torchs_selective_checkpoint_inside_a_region(setting):
    """Its inputs are ours; what its cache holds bypasses hooks in torch 2.13."""

    def policy(ctx, op, *args, **kwargs):
        save = op is torch.ops.aten.mm.default
        policies = torch_checkpoint.CheckpointPolicy
        return policies.MUST_SAVE if save else policies.PREFER_RECOMPUTE

    def scenario(run):
        x, w = setting.leaf(6, 6), setting.leaf(6, 6)

        def inner(t, w):
            return (t.sin() @ w).exp().sin()

        def fn(t, w):
            contexts = torch_checkpoint.create_selective_checkpoint_contexts
            return torch_checkpoint.checkpoint(
                inner, t * 2, w, use_reentrant=False, context_fn=lambda: contexts(policy)
            )

        run(fn, x, w).sum().backward()
        return gradients(x, w)

    setting.compare(scenario, ["swap", "region", "keep", "checkpoint"])


def test_b28_a_compiled_function_packs_in_every_step(cpu_setting):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6))
    compiled = torch.compile(model, backend="aot_eager")
    x = cpu_setting.leaf(4, 6)
    moved = []
    for _ in range(4):
        rt.reset_stats()
        y = swap(compiled, x * 1)
        moved.append(rt.stats().bytes_out)
        y.sum().backward()
    seen = gradients(x, *model.parameters())
    x.grad = None
    model.zero_grad()
    for _ in range(4):
        model(x * 1).sum().backward()
    assert_same(gradients(x, *model.parameters()), seen)
    assert moved[0] > 0 and len(set(moved)) == 1
    torch._dynamo.reset()


def test_b29_parameters_of_another_shape_in_the_recompute_are_named(setting):
    model = nn.Linear(6, 6, bias=False).to(setting.device)
    x = setting.leaf(4, 6)
    y = checkpoint(lambda t: model(t).exp().sin(), x)
    model.weight = nn.Parameter(model.weight.detach()[:5])
    text = message_of(restow.NotDeterministic, y.sum().backward)
    assert "[6, 5]" in text and "[6, 6]" in text and "TBackward0" in text


def test_b30_in_place_inside_a_recomputed_region_is_found_out(setting):
    """Torch's own check is off where hooks are on, and the recompute changes its tensor too."""
    x = setting.leaf(4, 6)

    def fn(t):
        y = (t * 2).exp()
        z = y.sin()
        y.add_(1)
        return z.exp()

    y = checkpoint(fn, x, early_stop=False)
    message_of(restow.ModifiedInPlace, y.sum().backward)
    assert x.grad is None
    expect_changes_under_a_copy()


@pytest.mark.parametrize("way", ["swap", "region", "keep"])
def test_b30_in_place_on_the_output_of_a_region_that_saved_it(setting, way):
    x = setting.leaf(4, 6)
    y = WAYS[way](lambda t: (t * 2).sigmoid(), x)
    with torch.no_grad():
        y.mul_(2)
    text = message_of(restow.ModifiedInPlace, y.sum().backward)
    assert "Sigmoid" in text
    assert x.grad is None
    expect_changes_under_a_copy()


def test_b31_a_recompute_of_other_values_is_found_out_on_request(setting):
    factors = iter([2.0, 3.0])

    def fn(t):
        return (t * next(factors)).exp().sin()

    x = setting.leaf(4, 6)
    try:
        y = rt.checkpoint(fn, x, determinism_check="values")
    except (restow.Unsupported, ValueError) as error:
        assert "values" in str(error)
        return
    message_of(restow.NotDeterministic, y.sum().backward)
    assert x.grad is None


def test_b32_the_state_around_a_recompute_is_the_forwards(setting):
    seen = []

    def state():
        return (
            torch.is_autocast_enabled(setting.device),
            torch.get_autocast_dtype(setting.device),
            torch.is_autocast_enabled("cpu"),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
        )

    def fn(t):
        seen.append(state())
        return (t * 2).exp().sin()

    x = setting.leaf(4, 6)
    with torch.autocast(setting.device, dtype=torch.bfloat16):
        y = checkpoint(fn, x)
    outside = state()
    y.sum().backward()
    assert len(seen) == 2 and seen[0] == seen[1] != outside
    assert state() == outside
    e = (x.detach() * 2).exp()
    assert_same([e.cos() * e * 2], gradients(x))


def test_b32_a_forward_outside_autocast_recomputes_outside(setting):
    def scenario(run):
        layer = nn.Linear(6, 6).to(setting.device)
        x = setting.leaf(4, 6)
        y = run(lambda t: layer(t).sin(), x)
        with torch.autocast(setting.device, dtype=torch.bfloat16):
            y.sum().backward()
        return gradients(x, *layer.parameters())

    setting.compare(scenario)


def test_b33_importing_patches_nothing():
    code = """
import torch, torch.utils.checkpoint, torch.nn
def faces():
    return {
        (owner.__name__, name): id(value)
        for owner in (torch, torch.utils.checkpoint, torch.autograd, torch.autograd.graph,
                      torch.nn.Module, torch.Tensor, torch.autograd.Function)
        for name, value in vars(owner).items()
        if callable(value)
    }
before = faces()
import restow.torch
after = faces()
assert before and all(after.get(key) == value for key, value in before.items())
print("done")
"""
    done = script(code)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_b33_inference_tensors_pass_through(setting, way):
    with torch.inference_mode():
        x = setting.random(4, 6)
        y = WAYS[way](lambda t: (t * 2).exp(), x)
        assert y.is_inference()
    assert_same((x * 2).exp(), y)


def test_b36_a_marked_tensor_that_autograd_never_saves_is_listed(setting):
    with rt.region("swap", policy_fn=must_swap):
        marked = rt.swap_tensor_wrapper(setting.leaf(4, 6) * 1, tag="unsaved")
    assert any("unsaved" in row.label for row in explained())
    del marked


@pytest.mark.parametrize("way", WAYS)
def test_b38_an_interleaved_schedule_of_four_micro_batches_is_bounded(setting, way):
    """Two stages of two chunks on one device; units are those of the micro-batches in flight."""
    torch.manual_seed(0)
    chunks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(4))
    chunks.to(setting.device)
    batches = [setting.random(4, 6) for _ in range(4)]

    def train(run):
        chunks.zero_grad()
        flying, most = {}, 0
        for micro in range(4):
            for chunk in range(4):
                entry = batches[micro] if chunk == 0 else flying[micro, chunk - 1][1].detach()
                entry.requires_grad_(chunk > 0)
                flying[micro, chunk] = (entry, run(chunks[chunk], entry))
            if micro >= 1:
                drain(flying, micro - 1)
            most = max(most, rt.stats().units)
        drain(flying, 3)
        return gradients(*chunks.parameters()), most

    def drain(flying, micro):
        grad = None
        for chunk in (3, 2, 1, 0):
            entry, out = flying.pop((micro, chunk))
            out.sum().backward() if grad is None else out.backward(grad)
            grad = entry.grad

    expected, _ = train(lambda fn, *args: fn(*args))
    actual, most = train(WAYS[way])
    assert_same(expected, actual)
    # At most two micro-batches of four chunks, each of which saves its input, its output and what
    # its recompute saves.
    assert most <= 2 * 4 * 4


INPUTS = {
    "none": ((None,), {}),
    "numbers": ((3, 2.5, True), {}),
    "a mask": ((torch.tensor([True, False, True]),), {}),
    "integers": ((torch.tensor([2, 0, 1]),), {}),
    "nested": (((1, [None, {"a": torch.tensor([1.0, 2.0, 3.0])}]),), {}),
    "keywords": ((), {"scale": torch.tensor([1.0, 2.0, 3.0]), "name": "x", "nothing": None}),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_b39_inputs_of_every_kind(setting, kind):
    args, kwargs = torch.utils._pytree.tree_map(
        lambda v: v.to(setting.device) if isinstance(v, torch.Tensor) else v, INPUTS[kind]
    )

    def use(x, *args, **kwargs):
        y = (x * 2).exp()
        for leaf in torch.utils._pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.bool, torch.int64):
                y = y[..., leaf].sin()
            elif isinstance(leaf, (torch.Tensor, int, float)):
                y = (y * leaf).sin()
        return y, None, {"shape": tuple(y.shape), "again": [y * y]}

    def scenario(run):
        x = setting.leaf(4, 3)
        y, nothing, more = run(use, x, *args, **kwargs)
        assert nothing is None
        (y.sum() + more["again"][0].sum()).backward()
        return gradients(x) + [more["shape"]]

    setting.compare(scenario)


def test_b39_integer_inputs_alone_with_weights_that_want_gradients(setting):
    def scenario(run):
        torch.manual_seed(0)
        table = nn.Embedding(5, 4).to(setting.device)
        words = torch.tensor([[1, 2], [4, 1]], device=setting.device)
        run(lambda w: table(w).exp().sin(), words).sum().backward()
        return gradients(table.weight)

    setting.compare(scenario)


class Passive(torch.Tensor):
    """A subclass that implements nothing of what a wrapper of tensors would."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Opaque(torch.Tensor):
    """A wrapper around a tensor that cannot be flattened and knows three operators."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device, requires_grad=False
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        known = {
            torch.ops.aten.mul.Tensor: False,
            torch.ops.aten.detach.default: True,
            torch.ops.aten.view.default: True,
        }
        if func not in known:
            raise NotImplementedError(f"Opaque knows no {func}")
        args = tuple(a.inner if isinstance(a, Opaque) else a for a in args)
        out = func(*args, **(kwargs or {}))
        return Opaque(out) if known[func] else out


@pytest.mark.parametrize("way", WAYS)
def test_b49_a_plain_subclass_is_saved_and_comes_back(setting, way):
    def scenario(run):
        x = setting.leaf(4, 6)
        other = setting.random(4, 6).as_subclass(Passive)
        y = run(lambda t: (t * other).sin() * other, x)
        y.sum().backward()
        return [x.grad.as_subclass(torch.Tensor).clone()]

    setting.compare(scenario, [way], moves=())


@pytest.mark.parametrize("way", WAYS)
def test_b49_an_unknown_wrapper_is_left_alone(setting, way):
    def scenario(run):
        x = setting.leaf(4, 6)
        other = Opaque(torch.full((4, 6), 2.0, device=setting.device))
        y = run(lambda t: (t.exp() * other).sin(), x)
        y.sum().backward()
        return gradients(x)

    setting.compare(scenario, [way], moves=())


def test_b46_the_adapter_names_no_vendors_device():
    files = [
        *ROOT.glob("python/restow/torch/**/*.py"),
        *ROOT.glob("adapters/libtorch/*.cc"),
        *ROOT.glob("adapters/libtorch/*.h"),
        *ROOT.glob("adapters/libtorch/torch/**/*.cc"),
    ]
    assert files
    words = ("torch.cuda", "torch.npu", "torch.xpu", "c10/cuda", "at::cuda", "cudaMemcpy")
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not [word for word in words if word in text], file
