"""Reads, writes, names, state dicts and modes through a wrapper."""

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
)

import restow.torch as rt

BARE = sorted(set(dir(nn.Module())))


def deeply_wrapped(wrap):
    """A block, two layers of a block, and a block with a wrapper assigned into it later."""
    whole = model()
    whole.layers[0] = wrap(whole.layers[0])
    whole.layers[1].fc1 = wrap(whole.layers[1].fc1)
    whole.layers[1].norm = wrap(whole.layers[1].norm)
    within = PassThrough(nn.Linear(4, 4, bias=False))
    within.load_state_dict(whole.layers[2].fc2.state_dict())
    whole.layers[2] = wrap(whole.layers[2])
    whole.layers[2].fc2 = within
    return whole


def rooted(wrap):
    return wrap(model())


SHAPES = {"layers": lambda w: wrap_layers(model(), w), "deep": deeply_wrapped, "root": rooted}


@pytest.fixture(params=list(SHAPES))
def wrapped(request, wrap):
    whole = SHAPES[request.param](wrap)
    yield whole
    # pytest holds the value for longer than this test runs.
    rt.unwrap(whole)


# Reads.


def test_reads_give_the_wrappers_own_attributes_then_the_inner_modules(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert wrapper.gain is inner.gain
    assert wrapper.fc1 is inner.fc1
    assert wrapper.shift is inner.shift
    assert wrapper.note == "plain"
    assert wrapper.width == 4
    assert wrapper.version == "class attribute"
    assert wrapper.doubled(3) == 6
    inner.__dict__["unwrap_module"] = "hidden"
    inner.__dict__["_site"] = "hidden"
    assert wrapper.unwrap_module is inner
    assert wrapper._site != "hidden"


def test_unknown_attributes_name_wrapper_type_and_attribute(wrap):
    wrapper = wrap(block())
    with pytest.raises(AttributeError, match=rf"{type(wrapper).__name__}.*nothing_like_it"):
        wrapper.nothing_like_it
    assert not hasattr(wrapper, "nothing_like_it")
    assert getattr(wrapper, "nothing_like_it", 3) == 3


@pytest.mark.parametrize("name", BARE)
def test_names_of_a_bare_module_are_never_forwarded(name):
    class Loud(nn.Module):
        def __getattribute__(self, asked):
            if asked == armed:
                raise AssertionError(f"{asked} was forwarded")
            return super().__getattribute__(asked)

    armed = None
    half_built = rt.SwapWrapper.__new__(rt.SwapWrapper)
    half_built.__dict__["_ckpt_wrapped_module"] = Loud()
    armed = name
    with pytest.raises(AttributeError):
        half_built.__getattr__(name)


def test_the_hooks_and_forward_of_a_wrapper_are_its_own(wrap):
    wrapper = wrap(block())
    assert wrapper.forward.__self__ is wrapper
    assert wrapper._forward_hooks is not wrapper.unwrap_module._forward_hooks
    wrapper.register_forward_hook(lambda *a: None)
    assert not wrapper.unwrap_module._forward_hooks


@pytest.mark.parametrize("kind", [rt.SwapWrapper, rt.CheckpointWrapper, PassThrough])
@pytest.mark.parametrize(
    "name",
    ["gain", "training", "_modules", "_parameters", "_ckpt_wrapped_module", "bprop", "_site"],
)
def test_a_half_built_wrapper_is_probed_without_recursion(kind, name):
    wrapper = kind.__new__(kind)
    assert not hasattr(wrapper, name)
    assert isinstance(dir(wrapper), list)
    assert "None" in repr(wrapper)


def test_dir_lists_both(wrap):
    names = dir(wrap(block()))
    assert {"unwrap_module", "gain", "fc1", "shift", "note", "width", "forward"} <= set(names)


# Writes and deletes.


def test_writes_and_deletes_go_to_the_inner_module(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    gain, layer, shift = nn.Parameter(torch.zeros(4)), nn.Linear(4, 4), torch.ones(4)
    wrapper.gain = gain
    wrapper.fc1 = layer
    wrapper.shift = shift
    wrapper.note = "new"
    wrapper.more = nn.Parameter(torch.zeros(1))
    assert (inner.gain, inner.fc1, inner.shift, inner.note) == (gain, layer, shift, "new")
    assert "more" in dict(inner.named_parameters())
    assert not {"gain", "fc1", "shift", "note", "more"} & set(vars(wrapper))
    for name in ("gain", "fc1", "shift", "note", "more"):
        delattr(wrapper, name)
        assert not hasattr(inner, name)
    with pytest.raises(AttributeError):
        del wrapper.gone


def test_a_write_that_the_inner_module_refuses_is_refused(wrap):
    wrapper = wrap(block())
    with pytest.raises(TypeError, match="gain"):
        wrapper.gain = torch.zeros(4)
    with pytest.raises(AttributeError):
        wrapper.width = 5


def test_registering_goes_to_the_inner_module(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    wrapper.register_parameter("p", nn.Parameter(torch.zeros(1)))
    wrapper.register_buffer("b", torch.zeros(1), persistent=False)
    wrapper.register_module("m", nn.Identity())
    wrapper.add_module("n", nn.Identity())
    assert {"p"} <= set(inner._parameters)
    assert {"b"} <= set(inner._buffers)
    assert {"m", "n"} <= set(inner._modules)
    assert "b" in inner._non_persistent_buffers_set


def test_set_submodule_and_get_submodule_see_through(wrapped):
    names = [n for n, _ in model().named_modules() if n]
    for name in names:
        assert wrapped.get_submodule(name) is not None
    new = nn.Linear(4, 4)
    wrapped.set_submodule("layers.0.fc2", new)
    assert wrapped.get_submodule("layers.0.fc2") is new
    assert wrapped.get_parameter("layers.0.gain") is wrapped.layers[0].gain
    assert wrapped.get_buffer("layers.0.shift") is wrapped.layers[0].shift
    rt.unwrap(wrapped)
    assert wrapped.layers[0].fc2 is new


def test_declared_attributes_are_written_to_the_wrapper(wrap):
    wrapper = wrap(block())
    for name in set(vars(wrapper)) - set(vars(nn.Module())) - {"_ckpt_wrapped_module"}:
        setattr(wrapper, name, "mine")
        assert getattr(wrapper, name) == "mine"
        assert not hasattr(wrapper.unwrap_module, name)


def test_a_policy_that_is_a_module_is_no_child():
    wrapper = rt.swap_wrapper(block(), policy_fn=nn.Linear(1, 1))
    assert list(wrapper.state_dict()) == list(block().state_dict())


def test_training_is_a_property_of_the_inner_module(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert wrapper.training is True
    wrapper.training = False
    assert inner.training is False
    inner.training = True
    assert wrapper.training is True
    assert "training" not in vars(wrapper)


# Containers.


def test_indexing_len_iteration_and_in_are_forwarded(wrap):
    parts = [nn.Linear(1, 1), nn.ReLU()]
    wrapper = wrap(nn.Sequential(*parts))
    assert wrapper[0] is parts[0]
    assert list(wrapper[0:1]) == parts[:1]
    assert len(wrapper) == 2
    assert list(wrapper) == parts
    assert list(reversed(wrapper)) == parts[::-1]
    assert parts[1] in wrapper
    assert nn.Identity() not in wrapper
    wrapper[1] = replacement = nn.Tanh()
    assert wrapper.unwrap_module[1] is replacement
    del wrapper[1]
    assert len(wrapper.unwrap_module) == 1


def test_indexing_len_iteration_and_in_are_errors_where_the_inner_module_has_none(wrap):
    wrapper = wrap(nn.Linear(1, 1))
    for use in (len, iter, lambda w: w[0], lambda w: 0 in w):
        with pytest.raises(TypeError, match="Linear"):
            use(wrapper)


@pytest.mark.parametrize(
    "inner", [nn.Sequential(), nn.Sequential(nn.ReLU()), nn.ModuleList(), nn.Linear(1, 1)]
)
def test_bool_is_that_of_the_inner_module(wrap, inner):
    assert bool(wrap(inner)) == bool(inner)


# Module names.


def test_named_modules_yield_the_wrapper_then_the_inner_module_under_the_same_name(wrap):
    whole = wrap_layers(model(1), wrap)
    plain = [name for name, _ in model(1).named_modules()]
    pairs = list(whole.named_modules())
    at = [name for name, _ in pairs].index("layers.0")
    assert [name for name, _ in pairs] == plain[: at + 1] + plain[at:]
    assert pairs[at][1] is whole.layers[0]
    assert pairs[at + 1][1] is whole.layers[0].unwrap_module
    assert {n: type(m) for n, m in dict(pairs).items()} == {
        n: type(m) for n, m in model(1).named_modules()
    }
    assert [n for n, _ in whole.layers[0].named_modules(prefix="p")][:3] == ["p", "p", "p.fc1"]


def test_the_distinct_names_of_modules_are_the_unwrapped_models(wrapped):
    plain = [name for name, _ in model().named_modules()]
    for duplicates in (True, False):
        names = [name for name, _ in wrapped.named_modules(remove_duplicate=duplicates)]
        assert list(dict.fromkeys(names)) == plain
    assert {type(m) for m in dict(wrapped.named_modules()).values()} == {
        type(m) for m in model().modules()
    }


def test_named_children_and_children_of_a_wrapper_are_the_inner_modules(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert list(wrapper.named_children()) == list(inner.named_children())
    assert list(wrapper.children()) == list(inner.children())


def test_a_shared_module_is_named_once(wrap):
    whole = model(2)
    shared = wrap(whole.layers[0])
    whole.layers[0] = shared
    whole.layers[1] = shared
    names = [name for name, _ in whole.named_modules()]
    assert "layers.1" not in names
    assert [name for name, _ in whole.named_modules(remove_duplicate=False)].count("layers.1") == 2


def test_apply_reaches_inner_modules_once_each(wrapped):
    seen, expected = [], []
    assert wrapped.apply(seen.append) is wrapped
    model().apply(expected.append)
    assert [type(m) for m in seen] == [type(m) for m in expected]
    assert len(set(seen)) == len(seen)


def test_random_initialisation_through_apply_draws_as_without_wrappers(wrapped):
    def start(module):
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter)

    plain = model()
    for whole in (plain, wrapped):
        torch.manual_seed(3)
        whole.apply(start)
    for ours, theirs in zip(wrapped.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


# Parameter names.


@pytest.mark.parametrize("duplicates", [True, False])
def test_parameters_and_buffers_have_the_unwrapped_keys_each_once_in_order(wrapped, duplicates):
    plain = model()
    for listing in ("named_parameters", "named_buffers"):
        expected = [n for n, _ in getattr(plain, listing)(remove_duplicate=duplicates)]
        assert [n for n, _ in getattr(wrapped, listing)(remove_duplicate=duplicates)] == expected
        prefixed = getattr(wrapped, listing)("p", remove_duplicate=duplicates)
        assert [n for n, _ in prefixed] == ["p." + n for n in expected]
    assert len(list(wrapped.parameters())) == len(list(plain.parameters()))
    assert len(list(wrapped.buffers())) == len(list(plain.buffers()))


def test_listings_without_recursion_are_the_inner_modules_own(wrap):
    wrapper = wrap(block())
    assert [n for n, _ in wrapper.named_parameters(recurse=False)] == ["gain"]
    assert [n for n, _ in wrapper.named_buffers(recurse=False)] == ["shift", "scratch"]


def test_what_each_module_owns_is_seen_once_by_a_walk_over_modules(wrapped):
    owned = [name for m in wrapped.modules() for name in m._parameters]
    assert owned == [name for m in model().modules() for name in m._parameters]
    held = [name for m in wrapped.modules() for name in m._buffers]
    assert held == [name for m in model().modules() for name in m._buffers]


def test_parameters_are_found_set_and_deleted_by_name_in_the_wrappers_registries(wrap):
    wrapper = wrap(block())
    inner = wrapper.unwrap_module
    assert "gain" in wrapper._parameters
    assert "shift" in wrapper._buffers
    assert "fc1" in wrapper._modules
    assert wrapper._parameters["gain"] is wrapper._parameters.get("gain") is inner.gain
    assert wrapper._parameters.get("none", 7) == 7
    wrapper._parameters["gain"] = new = nn.Parameter(torch.zeros(4))
    assert inner.gain is new
    assert wrapper._parameters.pop("gain") is new
    wrapper._buffers["shift"] = torch.ones(4)
    del wrapper._buffers["shift"]
    assert not hasattr(inner, "gain")
    assert not hasattr(inner, "shift")


def test_functional_call_reaches_parameters_of_wrapped_modules(wrap):
    whole, plain = model().eval(), model().eval()
    whole.layers[0] = PassThrough(whole.layers[0])
    whole.first = PassThrough(whole.first)
    torch.manual_seed(5)
    values = {n: torch.randn_like(p) for n, p in plain.named_parameters()}
    x = torch.randn(2, 4)
    before = {n: p for n, p in whole.named_parameters()}
    ours = torch.func.functional_call(whole, values, (x,))
    assert torch.equal(ours, torch.func.functional_call(plain, values, (x,)))
    assert all(p is before[n] for n, p in whole.named_parameters())


# State dicts.


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
