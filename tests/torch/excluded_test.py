"""checkpoint_exclude_wrapper's regions: run once, and never a wrong number."""

import pytest
import torch
from helpers import assert_same, gradients, plain

import restow
import restow.torch as rt


def excluded(fn):
    return rt.checkpoint_exclude_wrapper(fn)


def test_a_result_changed_in_place_in_the_checkpoint_is_an_error(setting):
    """The rerun would change the changed one once more."""
    inner = excluded(torch.sin)

    def fn(t):
        y = inner(t * 1)
        return y.detach().mul_(2) * t.cos()

    x = setting.leaf(3, 4)
    y = rt.checkpoint(fn, x)
    with pytest.raises(restow.ModifiedInPlace, match="excluded region"):
        y.sum().backward()


def test_a_region_that_raised_in_the_forward_raises_in_the_rerun_and_the_next_keeps_its_result(
    setting,
):
    calls = []

    def refuses(t):
        calls.append("refuses")
        raise ZeroDivisionError

    def works(t):
        calls.append("works")
        return t.sin()

    first, second = excluded(refuses), excluded(works)

    def fn(t):
        try:
            t = first(t)
        except ZeroDivisionError:
            t = t * 3
        return second(t).exp()

    x = setting.leaf(3, 4)
    rt.checkpoint(fn, x, early_stop=False).sum().backward()
    assert calls == ["refuses", "works", "refuses"]
    t = x.detach().requires_grad_()
    plain(lambda u: (u * 3).sin().exp(), t).sum().backward()
    assert_same(gradients(t), gradients(x))
