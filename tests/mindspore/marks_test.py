"""Marked tensors: what moves, under which label, and what a mark that finds nothing says."""

import collections

import pytest
from mindspore import ops
from models import gradients, tensor

import restow.mindspore as rm

Pair = collections.namedtuple("Pair", "left right")


def square(x):
    y = ops.tanh(x)
    return (y * y).sum()


def test_marked_tensors_move_whatever_their_size_and_the_target_is_returned():
    rm.configure(min_bytes="1GiB")
    seen = []

    def body(x):
        y = ops.tanh(x)
        target = {"a": [y, 3], "b": Pair(y, None)}
        assert rm.swap_tensor_wrapper(target, "mine") is target
        seen.append(1)
        return (y * y).sum()

    with_mark = gradients(lambda x: rm.swap(body, x), tensor(4, 4))
    assert seen
    assert with_mark == gradients(square, tensor(4, 4))
    assert rm.stats().bytes_out == 64
    assert any(label == "mine::(4, 4)" and what == "swap" for label, _, what, _ in rm.explain())


def test_labels_are_group_and_shape_and_the_default_tag():
    rm.configure(min_bytes="1GiB")

    def body(x):
        y = ops.tanh(x)
        rm.swap_tensor_wrapper(y)
        return (y * y).sum()

    def fn(x):
        with rm.group("g7"):
            return rm.swap(body, x)

    gradients(fn, tensor(4, 4))
    assert "g7_swap_tensor::(4, 4)" in [row[0] for row in rm.explain()]
    rm.configure(min_bytes=0)

    def named(x):
        with rm.group("g8"):
            return rm.swap(lambda x: (x * x).sum(), x)

    gradients(named, tensor(2, 3))
    assert "g8::(2, 3)" in [row[0] for row in rm.explain()]


def test_marked_tensors_move_inside_a_group_without_a_region():
    def fn(x):
        with rm.group("alone"):
            y = ops.tanh(x)
            rm.swap_tensor_wrapper(y)
            z = y * y
        return z.sum()

    assert gradients(fn, tensor(4, 4)) == gradients(square, tensor(4, 4))
    assert rm.stats().bytes_out == 64


def test_outside_any_group_a_mark_warns_once_per_tag():
    def fn(x):
        rm.swap_tensor_wrapper(x, "lonely")
        return (x * x).sum()

    with pytest.warns(UserWarning, match=r"lonely.*no group is active") as caught:
        gradients(fn, tensor(3))
        gradients(fn, tensor(3))
    assert len([w for w in caught if "lonely" in str(w.message)]) == 1


def test_a_mark_that_autograd_never_saves_is_explained():
    def body(x):
        rm.swap_tensor_wrapper(ops.tanh(x), "never")
        return (x * x).sum()

    gradients(lambda x: rm.swap(body, x), tensor(3))
    [row] = [row for row in rm.explain() if row[0] == "never::(3,)"]
    assert row[1:] == (12, "keep", "marked, but never saved for backward")
