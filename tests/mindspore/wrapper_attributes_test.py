"""Reads, writes and container syntax through a wrapper."""

import numpy as np
import pytest
from mindspore import Parameter, nn, ops
from models import PassThrough, block, model, tensor, wrap, wrapped  # noqa: F401

import restow.mindspore as rm

_bare = nn.Cell()
BARE = sorted(set(dir(_bare)) | set(vars(_bare)))


def test_reads_give_the_wrappers_own_attributes_then_the_inner_cells(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_cell
    assert wrapper.gain is inner.gain
    assert wrapper.fc1 is inner.fc1
    assert wrapper.shift is inner.shift
    assert wrapper.note == "plain"
    assert wrapper.width == 4
    assert wrapper.version == "class attribute"
    assert wrapper.doubled(3) == 6
    inner.__dict__["unwrap_cell"] = "hidden"
    inner.__dict__["_site"] = "hidden"
    assert wrapper.unwrap_cell is inner
    assert wrapper._site != "hidden"


def test_unknown_attributes_name_wrapper_type_and_attribute(wrap):
    wrapper = wrap(block())
    with pytest.raises(AttributeError, match=rf"{type(wrapper).__name__}.*nothing_like_it"):
        wrapper.nothing_like_it
    assert not hasattr(wrapper, "nothing_like_it")
    assert getattr(wrapper, "nothing_like_it", 3) == 3


class Loud:
    """Says when a name is asked for."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was forwarded")


def test_names_of_a_bare_cell_are_never_forwarded():
    half_built = rm.SwapWrapper.__new__(rm.SwapWrapper)
    half_built.__dict__["_ckpt_wrapped_module"] = Loud()
    assert {"recompute", "construct", "_forward_hook", "has_bprop"} <= set(BARE)
    for name in BARE:
        with pytest.raises(AttributeError):
            half_built.__getattr__(name)
    with pytest.raises(AssertionError, match="anything_else"):
        half_built.__getattr__("anything_else")


def test_the_hooks_and_construct_of_a_wrapper_are_its_own(wrap):
    wrapper = wrap(block())
    assert wrapper.construct.__self__ is wrapper
    wrapper.register_forward_hook(lambda *a: None)
    assert wrapper._forward_hook
    assert not wrapper.unwrap_cell._forward_hook


def test_recompute_of_a_wrapper_is_not_the_inner_cells(wrap):
    wrapper = wrap(block())
    assert wrapper.recompute.__self__ is wrapper


@pytest.mark.parametrize("kind", [rm.SwapWrapper, rm.CheckpointWrapper, PassThrough])
@pytest.mark.parametrize(
    "name", ["gain", "training", "_cells", "_params", "_ckpt_wrapped_module", "bprop", "_site"]
)
def test_a_half_built_wrapper_is_probed_without_recursion(kind, name):
    wrapper = kind.__new__(kind)
    assert not hasattr(wrapper, name)
    assert isinstance(dir(wrapper), list)
    assert "None" in repr(wrapper)


def test_a_cell_with_a_bprop_of_its_own_keeps_it_and_the_wrapper_has_none(wrap):
    class Own(nn.Cell):
        def construct(self, x):
            return x

        def bprop(self, x, out, dout):
            return (dout,)

    wrapper = wrap(Own())
    assert not wrapper.has_bprop
    assert wrapper.unwrap_cell.has_bprop


def test_dir_lists_both(wrap):
    names = dir(wrap(block()))
    assert {"unwrap_cell", "note", "width", "construct"} <= set(names)


# Writes and deletes.


def test_writes_and_deletes_go_to_the_inner_cell(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_cell
    gain, layer = Parameter(ops.zeros((4,)), name="gain"), nn.Dense(4, 4)
    wrapper.gain = gain
    wrapper.fc1 = layer
    wrapper.note = "new"
    wrapper.more = Parameter(ops.zeros((1,)), name="more")
    assert (inner.gain, inner.fc1, inner.note) == (gain, layer, "new")
    assert "more" in dict(inner.parameters_and_names())
    assert not {"gain", "fc1", "note", "more"} & set(vars(wrapper))
    for name in ("gain", "fc1", "shift", "note", "more"):
        delattr(wrapper, name)
        assert not hasattr(inner, name)
    with pytest.raises(AttributeError):
        del wrapper.gone


def test_a_write_that_the_inner_cell_refuses_is_refused(wrap):
    wrapper = wrap(block())
    with pytest.raises(TypeError, match="fc1"):
        wrapper.fc1 = 3
    with pytest.raises(AttributeError):
        wrapper.width = 5


def test_registering_goes_to_the_inner_cell(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_cell
    wrapper.insert_param_to_cell("p", Parameter(ops.zeros((1,)), name="p"))
    wrapper.register_buffer("b", tensor(1), persistent=False)
    wrapper.insert_child_to_cell("m", nn.Identity())
    assert "p" in inner._params
    assert "b" in inner._buffers
    assert "m" in inner._cells
    assert "b" in inner._non_persistent_buffers_set


def test_sub_cells_parameters_and_buffers_are_reached_by_path(wrapped):
    names = [n for n, _ in model().cells_and_names() if n]
    for name in names:
        assert wrapped.get_sub_cell(name) is not None
    new = nn.Dense(4, 4)
    wrapped.get_sub_cell("layers.0").fc2 = new
    assert wrapped.get_sub_cell("layers.0.fc2") is new
    assert wrapped.get_buffer("layers.0.shift") is wrapped.layers[0].shift
    rm.unwrap(wrapped)
    assert wrapped.layers[0].fc2 is new


def test_declared_attributes_are_written_to_the_wrapper(wrap):
    wrapper = wrap(block())
    own = set(vars(wrapper)) - set(vars(nn.Cell())) - {"_ckpt_wrapped_module", "_attachment"}
    assert "_site" in own
    for name in own - {"_released"}:
        setattr(wrapper, name, "mine")
        assert getattr(wrapper, name) == "mine"
        assert not hasattr(wrapper.unwrap_cell, name)


def test_a_policy_that_is_a_cell_is_no_child():
    wrapper = rm.swap_wrapper(block(), policy_fn=nn.Dense(1, 1))
    assert list(wrapper.state_dict()) == list(block().state_dict())


def test_training_is_a_property_of_the_inner_cell(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_cell
    assert wrapper.training is False
    wrapper.training = True
    assert inner.training is True
    inner.training = False
    assert wrapper.training is False
    assert "training" not in vars(wrapper)


# Containers.


@pytest.mark.parametrize("kind", [nn.SequentialCell, lambda *cells: nn.CellList(list(cells))])
def test_indexing_len_iteration_and_in_are_forwarded(wrap, kind):
    parts = [nn.Dense(1, 1), nn.ReLU()]
    wrapper = wrap(kind(*parts))
    assert wrapper[0] is parts[0]
    assert len(wrapper) == 2
    assert list(wrapper) == parts
    assert parts[1] in wrapper
    assert nn.Identity() not in wrapper
    wrapper[1] = replacement = nn.Tanh()
    assert wrapper.unwrap_cell[1] is replacement
    wrapper.append(nn.Dense(1, 1))
    del wrapper[2]
    assert len(wrapper.unwrap_cell) == 2


def test_indexing_len_iteration_and_in_are_errors_where_the_inner_cell_has_none(wrap):
    wrapper = wrap(nn.Dense(1, 1))
    for use in (len, iter, lambda w: w[0], lambda w: 0 in w):
        with pytest.raises(TypeError, match="Dense"):
            use(wrapper)


@pytest.mark.parametrize(
    "inner", [nn.SequentialCell(), nn.SequentialCell(nn.ReLU()), nn.CellList(), nn.Dense(1, 1)]
)
def test_bool_is_that_of_the_inner_cell(wrap, inner):
    assert bool(wrap(inner)) == bool(inner)


def test_a_wrapped_sequential_cell_runs(wrap):
    cells = nn.SequentialCell(nn.Dense(4, 4), nn.ReLU())
    x = tensor(2, 4)
    expected = cells(x).asnumpy()
    assert np.array_equal(wrap(cells)(x).asnumpy(), expected)
