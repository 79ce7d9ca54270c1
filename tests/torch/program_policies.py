"""Selective checkpoints for the random programs: what is kept, and how it is asked for."""

import functools
import random

import torch
from torch.utils import checkpoint as torch_checkpoint

import restow.torch as rt
from restow.torch import _selective

ATEN = torch.ops.aten

# What the programs' operators are made of, in every form in which a list may name it.
NAMES = [
    "attention",
    "matmul",
    "norm",
    "aten::addmm",
    "aten::mul",
    "aten::mul.Tensor",
    "aten::sin",
    "aten::linear",
    "aten::dropout",
    "aten::softmax",
    "aten::chunk",
    "aten::cat",
    "aten::native_dropout",
    "aten::bernoulli_",
    "aten::_unsafe_view",
    ATEN.mm.default,
    ATEN.addmm.default,
    ATEN.add.Tensor,
    ATEN.sigmoid.default,
    ATEN.tanh.default,
    ATEN.exp.default,
    ATEN._softmax.default,
    ATEN.native_layer_norm.default,
    ATEN.clamp.default,
    ATEN.gelu.default,
    ATEN.where.self,
    ATEN.index.Tensor,
    ATEN.clone.default,
    ATEN.repeat.default,
]

ANSWERS = [
    *rt.CheckpointPolicy,
    *torch_checkpoint.CheckpointPolicy,
]


class ByOperator:
    """The same answer for an operator, always."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, ctx, op, *args, **kwargs):
        assert not ctx.is_recompute
        return random.Random(f"{self.seed} {op}").choice(ANSWERS)


class ByTurn:
    """The answers in turn: what an operator gets differs from call to call."""

    def __init__(self, seed):
        self.answers = random.Random(seed).sample(ANSWERS, 5)
        self.asked = 0

    def __call__(self, ctx, op, *args, **kwargs):
        assert not ctx.is_recompute
        self.asked += 1
        return self.answers[self.asked % len(self.answers)]


class AtRandom:
    """Any answer, from numbers of its own."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def __call__(self, ctx, op, *args, **kwargs):
        assert not ctx.is_recompute
        return self.draw.choice(ANSWERS)


class BySize:
    """Looks at what it is given, and computes with it."""

    def __init__(self, seed):
        self.limit = random.Random(seed).randint(4, 40)

    def __call__(self, ctx, op, *args, **kwargs):
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if any((tensor.detach() * 2).numel() > self.limit for tensor in tensors):
            return rt.CheckpointPolicy.MUST_SWAP
        return rt.CheckpointPolicy.PREFER_SAVE


def listed(draw):
    return draw.sample(NAMES, draw.randint(1, 8))


def three_lists(draw):
    names = draw.sample(NAMES, 12)
    return _selective.names_of(save=names[:5], recompute=names[5:7], swap=names[7:])


def draw_policy(draw):
    kind = draw.choice([listed, three_lists, ByOperator, ByTurn, AtRandom, BySize])
    return kind(draw) if kind in (listed, three_lists) else kind(draw.random())


def by_policy(options, fn, x):
    return rt.checkpoint(fn, x, **options)


def by_context(options, fn, x):
    options = dict(options)
    make = functools.partial(
        rt.create_selective_checkpoint_contexts,
        options.pop("policy_fn"),
        group_swap=options.pop("group_swap"),
        tier=options.pop("tier", None),
    )
    return rt.checkpoint(fn, x, context_fn=make, **options)


def by_wrapper(options, fn, x):
    return rt.checkpoint_wrapper(fn, **options)(x)


def draw_selective(draw):
    """A way to run a function: a selective checkpoint, told to the last detail."""
    form = draw.choice([by_policy, by_context, by_wrapper])
    options = {
        "policy_fn": draw_policy(draw),
        "group_swap": draw.random() < 0.3,
        "swap_inputs": draw.random() < 0.3,
        "early_stop": draw.random() < 0.8,
        "determinism_check": draw.choice(["default", "default", "values", "none"]),
    }

    if form is not by_policy:
        options["tier"] = draw.choice([None, "host", "file"])

    def way(fn, x):
        return form(options, fn, x)

    way.__name__ = f"{form.__name__} {options}"
    return way
