"""State dicts, modes, precision, copies and optimizers of models with wrappers."""

import copy
import pickle

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, nn, ops
from models import (  # noqa: F401
    Block,
    PassThrough,
    bits,
    block,
    model,
    must_swap,
    tensor,
    train,
    wrap,
    wrap_layers,
    wrapped,
)

import restow
import restow.mindspore as rm
from restow.mindspore import _overlap


def shifted(values):
    return {name: Parameter(value + 1) for name, value in values.items()}


def test_a_state_dict_saved_with_wrappers_has_the_unwrapped_keys_in_order(wrapped):
    assert list(wrapped.state_dict()) == list(model().state_dict())
    assert list(wrapped.state_dict(prefix="p.")) == list(model().state_dict(prefix="p."))


def test_state_dicts_load_with_and_without_wrappers(wrapped):
    plain = model()
    values = shifted(plain.state_dict())
    answer = wrapped.load_state_dict(values)
    assert (answer.missing_keys, answer.unexpected_keys) == ([], [])
    assert [bits(v) for v in wrapped.state_dict().values()] == [bits(v) for v in values.values()]
    other = model()
    other.load_state_dict(wrapped.state_dict())
    assert [bits(v) for v in other.state_dict().values()] == [bits(v) for v in values.values()]


@pytest.mark.parametrize("strict", [True, False])
def test_missing_and_unexpected_keys_and_error_texts_are_the_unwrapped_models(wrapped, strict):
    values = dict(model().state_dict())
    del values["layers.1.gain"]
    values["layers.0.nothing"] = tensor(1)
    values["layers.2.fc1.extra.deep"] = tensor(1)
    values["layers.0.fc1.weight"] = tensor(7, 7)

    def outcome(whole):
        try:
            answer = whole.load_state_dict(values, strict=strict)
        except RuntimeError as error:
            return str(error).replace(type(whole).__name__, "Model")
        return answer.missing_keys, answer.unexpected_keys

    assert outcome(wrapped) == outcome(model())
    assert "layers.0.fc1.weight" in outcome(wrapped)


def test_returned_missing_and_unexpected_keys_show_unwrapped_names(wrapped):
    values = dict(model().state_dict())
    del values["layers.1.gain"]
    values["layers.0.nothing"] = tensor(1)
    answer = wrapped.load_state_dict(values, strict=False)
    assert answer.missing_keys == ["layers.1.gain"]
    assert answer.unexpected_keys == ["layers.0.nothing"]


def test_state_dict_hooks_belong_to_the_inner_cell(wrap):
    wrapper, seen = wrap(block()), []
    wrapper.register_state_dict_post_hook(lambda cell, *rest: seen.append(cell))
    wrapper.register_load_state_dict_post_hook(lambda cell, keys: seen.append(cell))
    wrapper.load_state_dict(wrapper.state_dict())
    assert seen
    assert all(cell is wrapper.unwrap_cell for cell in seen)


# Modes.


def test_set_train_reaches_the_inner_cells(wrapped):
    for mode in (True, False):
        assert wrapped.set_train(mode) is wrapped
        assert {cell.training for _, cell in wrapped.cells_and_names()} == {mode}


def test_set_grad_reaches_the_inner_cell(wrap):
    wrapper = wrap(block())
    wrapper.set_grad()
    assert wrapper.unwrap_cell.requires_grad


def test_to_float_reaches_the_inner_cells(wrap):
    whole, plain = wrap_layers(model(1), wrap), model(1)
    for each in (whole, plain):
        each.to_float(ms.float16)
    x = tensor(2, 4)
    assert bits(whole(x)) == bits(plain(x))
    assert whole.layers[0].unwrap_cell.fc1.get_flags()["fp16"]


def test_to_float_of_the_wrapper_alone_is_that_of_the_inner_cell(wrap):
    wrapper, plain = wrap(block()), block()
    assert wrapper.to_float(ms.float16) is wrapper
    plain.to_float(ms.float16)
    assert bits(wrapper(tensor(2, 4))) == bits(plain(tensor(2, 4)))


# Copies.


def test_a_deep_copy_is_an_independent_wrapper_around_an_independent_copy(wrap):
    wrapper = wrap(block())
    before = _overlap.entries()
    twin = copy.deepcopy(wrapper)
    assert type(twin) is type(wrapper)
    assert twin.unwrap_cell is not wrapper.unwrap_cell
    assert twin._site != wrapper._site
    assert _overlap.entries() == 2 * before
    with pytest.raises(restow.Overlap):
        wrap(twin.unwrap_cell)
    twin.gain.set_data(ops.zeros((4,)))
    assert np.array_equal(wrapper.gain.asnumpy(), np.ones(4))
    rm.unwrap(wrapper)
    with pytest.raises(restow.Overlap):
        wrap(twin.unwrap_cell)


def test_a_deep_copy_of_a_model_trains_as_its_original():
    def swapped():
        return wrap_layers(model(), lambda cell: rm.swap_wrapper(cell, must_swap))

    whole = swapped()
    twin = copy.deepcopy(whole)
    expected = train(model())
    assert train(whole) == expected
    assert train(twin) == expected


class Plain(nn.Cell):
    """One of the few cells that pickle."""

    def __init__(self):
        super().__init__()
        self.number = 3

    def construct(self, x):
        return x


def test_pickle_works_where_the_inner_cell_pickles(wrap):
    assert pickle.loads(pickle.dumps(Plain())).number == 3
    wrapper = pickle.loads(pickle.dumps(wrap(Plain())))
    assert wrapper.number == 3
    assert type(wrapper.unwrap_cell) is Plain
    with pytest.raises(restow.Overlap):
        wrap(wrapper.unwrap_cell)


def test_pickle_fails_as_the_inner_cell_does(wrap):
    for target in (nn.Dense(1, 1), wrap(nn.Dense(1, 1))):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(target)


# Optimizers.


@pytest.mark.parametrize("when", ["before wrapping", "after wrapping"])
@pytest.mark.parametrize("kind", [nn.SGD, nn.AdamWeightDecay])
def test_optimizers_built_before_or_after_train_the_same_parameters(when, kind):
    def run(wrapping):
        whole = model()
        optimizer = kind(whole.trainable_params(), 0.01) if when == "before wrapping" else None
        if wrapping:
            wrap_layers(whole, lambda cell: rm.swap_wrapper(cell, must_swap))
        optimizer = optimizer or kind(whole.trainable_params(), 0.01)
        step = ms.value_and_grad(lambda x: (whole(x) ** 2).mean(), None, optimizer.parameters)
        losses = []
        for index in range(3):
            loss, grads = step(tensor(5, 4, seed=index))
            optimizer(grads)
            losses.append(bits(loss))
        return losses, [p.name for p in optimizer.parameters], bits(
            [p.value() for p in whole.get_parameters()]
        )

    assert run(wrapping=True) == run(wrapping=False)


def test_optimizers_built_before_or_after_attaching_train_the_same_parameters():
    class Root(nn.Cell):
        def __init__(self, body):
            super().__init__()
            self.body = body

        def construct(self, x):
            return self.body(x)

    for wrap_one in (lambda cell: cell, rm.swap_wrapper, rm.checkpoint_wrapper):
        body = wrap_one(block())
        early = nn.SGD(body.trainable_params(), 0.1)
        root = Root(body)
        late = nn.SGD(root.trainable_params(), 0.1)
        assert [id(p) for p in early.parameters] == [id(p) for p in late.parameters]
