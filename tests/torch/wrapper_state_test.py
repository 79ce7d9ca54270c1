"""State dicts, training modes and optimizers of models with wrappers."""

import io

import pytest
import torch
from torch import nn
from wrapper_models import (  # noqa: F401
    Block,
    PassThrough,
    block,
    model,
    table_is_left_as_it_was,
    wrap,
    wrap_layers,
    wrapped,
)

import restow.torch as rt


def changed(whole):
    """The same model with other values."""
    torch.manual_seed(9)
    with torch.no_grad():
        for tensor in [*whole.parameters(), *whole.buffers()]:
            if tensor.is_floating_point():
                tensor.normal_()
    return whole


def same_state(a, b):
    return list(a) == list(b) and all(torch.equal(a[key], b[key]) for key in a)


def test_state_dicts_have_the_unwrapped_keys_and_metadata(wrapped):
    plain = model()
    assert list(wrapped.state_dict()) == list(plain.state_dict())
    assert wrapped.state_dict()._metadata == plain.state_dict()._metadata
    assert list(wrapped.state_dict(prefix="p.")) == list(plain.state_dict(prefix="p."))
    assert wrapped.state_dict(keep_vars=True)["layers.0.gain"] is wrapped.layers[0].gain


def test_files_saved_with_wrappers_load_without_and_the_reverse(wrapped):
    file = io.BytesIO()
    torch.save(changed(wrapped).state_dict(), file)
    file.seek(0)
    plain = model()
    plain.load_state_dict(torch.load(file), strict=True)
    assert same_state(plain.state_dict(), wrapped.state_dict())

    file = io.BytesIO()
    torch.save(model().state_dict(), file)
    file.seek(0)
    answer = wrapped.load_state_dict(torch.load(file), strict=True)
    assert (answer.missing_keys, answer.unexpected_keys) == ([], [])
    assert same_state(model().state_dict(), wrapped.state_dict())


def test_loading_by_assignment_reaches_the_inner_modules(wrapped):
    state = changed(model()).state_dict()
    wrapped.load_state_dict(state, assign=True)
    assert wrapped.layers[0].gain.data_ptr() == state["layers.0.gain"].data_ptr()


def test_missing_and_unexpected_keys_show_unwrapped_names(wrapped):
    state = model().state_dict()
    del state["layers.0.gain"], state["layers.1.fc1.weight"]
    state["layers.0.other"] = state["layers.2.fc9.weight"] = torch.zeros(1)
    expected = model().load_state_dict(dict(state), strict=False)
    answer = wrapped.load_state_dict(dict(state), strict=False)
    assert sorted(answer.missing_keys) == sorted(expected.missing_keys)
    assert sorted(answer.unexpected_keys) == sorted(expected.unexpected_keys)
    assert len(expected.missing_keys) == len(expected.unexpected_keys) == 2


def test_error_texts_show_unwrapped_names(wrapped):
    def text_of(whole):
        state = model().state_dict()
        del state["layers.0.gain"]
        state["layers.0.other"] = torch.zeros(1)
        state["layers.1.fc1.weight"] = torch.zeros(2, 2)
        with pytest.raises(RuntimeError) as caught:
            whole.load_state_dict(state, strict=True)
        return str(caught.value)

    assert text_of(wrapped) == text_of(model())


def test_metadata_versions_reach_the_inner_modules(wrap):
    # BatchNorm fills in num_batches_tracked for files older than its version 2.
    state = model().state_dict()
    for key in list(state):
        if "num_batches_tracked" in key:
            del state[key]
    for at in state._metadata:
        state._metadata[at]["version"] = 1
    wrap_layers(model(), wrap).load_state_dict(state, strict=True)


class Extra(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1

    def get_extra_state(self):
        return {"scale": self.scale}

    def set_extra_state(self, state):
        self.scale = state["scale"]

    def forward(self, x):
        return x * self.scale


def test_extra_state_is_saved_and_loaded(wrap):
    whole = nn.Sequential(wrap(Extra()))
    whole[0].scale = 3
    plain = nn.Sequential(Extra())
    plain.load_state_dict(whole.state_dict(), strict=True)
    assert plain[0].scale == 3
    plain[0].scale = 4
    whole.load_state_dict(plain.state_dict(), strict=True)
    assert whole[0].unwrap_module.scale == 4


def test_state_dict_hooks_of_the_inner_module_run_once(wrap):
    calls = []
    whole = nn.Sequential(block())
    inner = whole[0]
    inner.register_state_dict_post_hook(lambda *a: calls.append("after saving"))
    inner.register_state_dict_pre_hook(lambda *a: calls.append("before saving"))
    inner.register_load_state_dict_pre_hook(lambda *a: calls.append("before loading"))
    inner.register_load_state_dict_post_hook(lambda *a: calls.append("after loading"))
    whole[0] = wrap(inner)
    for root in (whole, whole[0]):
        root.load_state_dict(root.state_dict())
        assert calls == ["before saving", "after saving", "before loading", "after loading"]
        calls.clear()


def test_state_dict_hooks_registered_on_a_wrapper_belong_to_the_inner_module(wrap):
    calls = []
    wrapper = wrap(block())
    handles = [
        wrapper.register_state_dict_post_hook(lambda *a: calls.append(0)),
        wrapper.register_state_dict_pre_hook(lambda *a: calls.append(1)),
        wrapper.register_load_state_dict_pre_hook(lambda *a: calls.append(2)),
        wrapper.register_load_state_dict_post_hook(lambda *a: calls.append(3)),
    ]
    inner = rt.unwrap(wrapper)
    inner.load_state_dict(inner.state_dict())
    assert sorted(calls) == [0, 1, 2, 3]
    for handle in handles:
        handle.remove()
    calls.clear()
    inner.load_state_dict(inner.state_dict())
    assert calls == []


# Modes.


def test_train_and_eval_reach_the_inner_module(wrapped):
    assert wrapped.eval() is wrapped
    assert not any(m.training for m in wrapped.modules())
    assert wrapped.train() is wrapped
    assert all(m.training for m in wrapped.modules())


def test_an_overridden_train_of_the_inner_module_is_called(wrap):
    class Frozen(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    whole = nn.Sequential(wrap(Frozen(4)))
    whole.train()
    whole[0].train()
    assert whole[0].unwrap_module.training is False


@pytest.mark.parametrize(
    ("change", "dtype"),
    [
        (lambda w: w.half(), torch.float16),
        (lambda w: w.double(), torch.float64),
        (lambda w: w.bfloat16(), torch.bfloat16),
        (lambda w: w.to(torch.float64), torch.float64),
        (lambda w: w.type(torch.float64), torch.float64),
        (lambda w: w.double().float(), torch.float32),
        (lambda w: w.cpu(), torch.float32),
        (lambda w: w.to("meta"), torch.float32),
        (lambda w: w.to("meta").to_empty(device="cpu"), torch.float32),
    ],
)
def test_changes_of_type_and_device_reach_the_inner_module(wrapped, change, dtype):
    expected = change(model())
    assert change(wrapped) is wrapped
    pairs = zip(wrapped.parameters(), expected.parameters(), strict=True)
    assert all((p.dtype, p.device) == (q.dtype, q.device) == (dtype, q.device) for p, q in pairs)
    assert wrapped.layers[0].shift.dtype == dtype


def test_requires_grad_and_zero_grad_reach_the_inner_module(wrapped):
    assert wrapped.requires_grad_(False) is wrapped
    assert not any(p.requires_grad for p in wrapped.parameters())
    wrapped.requires_grad_(True)
    for parameter in wrapped.parameters():
        parameter.grad = torch.zeros_like(parameter)
    wrapped.zero_grad()
    assert all(p.grad is None for p in wrapped.parameters())


def test_methods_that_the_inner_module_overrides_are_its_own(wrap):
    class Fixed(Block):
        def half(self):
            raise ValueError("stays in full precision")

    with pytest.raises(ValueError, match="full precision"):
        wrap(Fixed()).half()


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("attached", ["before", "after"])
def test_optimizers_train_the_same_parameters_in_any_order(order, attached):
    def train(whole, optimizer):
        for step in range(3):
            torch.manual_seed(step)
            whole(torch.randn(3, 4)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return whole.state_dict()

    plain = model()
    expected = train(plain, torch.optim.AdamW(plain.parameters(), lr=0.1))

    whole = model()
    optimizer = torch.optim.AdamW(whole.parameters(), lr=0.1) if order == "before" else None
    wrappers = [PassThrough(layer) for layer in whole.layers]
    if attached == "after" and optimizer is None:
        pieces = [whole.first, *wrappers, whole.head]
        unique = dict.fromkeys(p for piece in pieces for p in piece.parameters())
        optimizer = torch.optim.AdamW(unique, lr=0.1)
    whole.layers = nn.ModuleList(wrappers)
    optimizer = optimizer or torch.optim.AdamW(whole.parameters(), lr=0.1)
    assert same_state(train(whole, optimizer), expected)
