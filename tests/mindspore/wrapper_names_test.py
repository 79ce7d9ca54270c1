"""Names of cells, parameters and buffers in models with wrappers."""

from mindspore import Parameter, ops
from models import (  # noqa: F401
    PassThrough,
    block,
    model,
    tensor,
    wrap,
    wrap_layers,
    wrapped,
)


def test_cells_and_names_yield_the_wrapper_then_the_inner_cell_under_the_same_name(wrap):
    whole = wrap_layers(model(1), wrap)
    plain = [name for name, _ in model(1).cells_and_names()]
    pairs = list(whole.cells_and_names())
    at = [name for name, _ in pairs].index("layers.0")
    assert [name for name, _ in pairs] == plain[: at + 1] + plain[at:]
    assert pairs[at][1] is whole.layers[0]
    assert pairs[at + 1][1] is whole.layers[0].unwrap_cell
    assert {n: type(m) for n, m in dict(pairs).items()} == {
        n: type(m) for n, m in model(1).cells_and_names()
    }
    assert [n for n, _ in whole.layers[0].cells_and_names(name_prefix="p")][:3] == [
        "p",
        "p",
        "p.fc1",
    ]


def test_the_distinct_names_of_cells_are_the_unwrapped_models(wrapped):
    plain = [name for name, _ in model().cells_and_names()]
    assert list(dict.fromkeys(name for name, _ in wrapped.cells_and_names())) == plain


def test_children_of_a_wrapper_are_the_inner_cells(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_cell
    assert list(wrapper.name_cells().items()) == list(inner.name_cells().items())
    assert list(wrapper.cells()) == list(inner.cells())


def test_a_shared_cell_is_named_once(wrap):
    whole = model(2)
    shared = wrap(whole.layers[0])
    whole.layers[0] = shared
    whole.layers[1] = shared
    assert "layers.1" not in [name for name, _ in whole.cells_and_names()]
    assert [n for n, _ in whole.parameters_and_names() if n.startswith("layers.1")] == []


def test_a_walk_that_has_met_a_wrapper_passes_it_by(wrap):
    wrapper = wrap(block())
    assert list(wrapper.cells_and_names({wrapper})) == []


def test_apply_reaches_inner_cells_once_each(wrapped):
    seen, expected = [], []
    assert wrapped.apply(seen.append) is wrapped
    model().apply(expected.append)
    assert [type(m) for m in seen] == [type(m) for m in expected]
    assert len(set(seen)) == len(seen)


# Parameter names.


def test_parameters_and_buffers_have_the_unwrapped_keys_each_once_in_order(wrapped):
    plain = model()
    expected = [n for n, _ in plain.parameters_and_names()]
    assert [n for n, _ in wrapped.parameters_and_names()] == expected
    assert [n for n, _ in wrapped.parameters_and_names("p")] == ["p." + n for n in expected]
    for duplicates in (True, False):
        keys = [n for n, _ in plain.named_buffers(remove_duplicate=duplicates)]
        assert [n for n, _ in wrapped.named_buffers(remove_duplicate=duplicates)] == keys
    assert len(list(wrapped.get_parameters())) == len(expected)
    assert len(list(wrapped.buffers())) == len(list(plain.buffers()))


def test_trainable_parameters_are_those_of_the_unwrapped_model_in_order(wrapped):
    wrapped.layers[1].gain.requires_grad = False
    plain = model()
    plain.layers[1].gain.requires_grad = False
    shapes = [p.shape for p in plain.trainable_params()]
    assert [p.shape for p in wrapped.trainable_params()] == shapes
    assert len(wrapped.untrainable_params()) == 1


def test_listings_without_recursion_are_the_inner_cells_own(wrap):
    wrapper = wrap(block())
    assert [n for n, _ in wrapper.parameters_and_names(expand=False)] == ["gain"]
    assert [n for n, _ in wrapper.named_buffers(recurse=False)] == ["shift", "scratch"]


def test_what_each_cell_owns_is_seen_once_by_a_walk_over_cells(wrapped):
    owned = [name for _, m in wrapped.cells_and_names() for name in m._params]
    assert owned == [name for _, m in model().cells_and_names() for name in m._params]
    held = [name for _, m in wrapped.cells_and_names() for name in m._buffers]
    assert held == [name for _, m in model().cells_and_names() for name in m._buffers]


def test_parameters_are_found_set_and_deleted_by_name_in_the_wrappers_registries(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_cell
    assert "gain" in wrapper._params
    assert "shift" in wrapper._buffers
    assert "fc1" in wrapper._cells
    assert wrapper._params["gain"] is wrapper._params.get("gain") is inner.gain
    assert wrapper._params.get("none", 7) == 7
    wrapper._params["gain"] = new = Parameter(ops.zeros((4,)), name="gain")
    assert inner.gain is new
    assert wrapper._params.pop("gain") is new
    wrapper._buffers["shift"] = tensor(4)
    del wrapper._buffers["shift"]
    assert not hasattr(inner, "gain")
    assert not hasattr(inner, "shift")
