"""Deep copies and pickles of wrappers."""

import copy
import gc
import io
import pickle

import pytest
import torch
from torch import nn
from wrapper_models import (  # noqa: F401
    Callable,
    PassThrough,
    block,
    model,
    table_is_left_as_it_was,
    wrap,
    wrap_layers,
)

import restow
import restow.torch as rt
from restow.torch import _overlap


class Policy:
    """A policy with a state, which pickles."""

    def __init__(self):
        self.asked = []

    def __call__(self, tensor):
        return rt.CheckpointPolicy.MUST_SAVE


def choose(tensor):
    return rt.CheckpointPolicy.MUST_SWAP


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


def saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.fixture(params=[copy.deepcopy, pickled, saved])
def duplicate(request):
    return request.param


def test_a_copy_is_an_independent_wrapper_around_an_independent_copy(wrap, duplicate):
    wrapper = wrap(block())
    twin = duplicate(wrapper)
    assert type(twin) is type(wrapper)
    assert twin is not wrapper
    assert twin.unwrap_module is not wrapper.unwrap_module
    assert list(twin.state_dict()) == list(wrapper.state_dict())
    assert not {p.data_ptr() for p in twin.parameters()} & {
        p.data_ptr() for p in wrapper.parameters()
    }
    with torch.no_grad():
        twin.gain.zero_()
    twin.eval()
    assert torch.equal(wrapper.gain, torch.ones(4))
    assert wrapper.training


def test_a_copy_inside_a_model_keeps_names_and_sharing(wrap, duplicate):
    whole = wrap_layers(model(), wrap)
    twin = duplicate(whole)
    assert list(twin.state_dict()) == list(whole.state_dict())
    assert [n for n, _ in twin.named_modules()] == [n for n, _ in whole.named_modules()]
    assert twin.head.weight is twin.first.weight
    assert rt.unwrap(twin) is twin
    assert all(isinstance(layer, rt.ActivationWrapper) for layer in whole.layers)


def test_a_wrapper_that_occurs_twice_is_copied_once(wrap, duplicate):
    whole = model(2)
    whole.layers[0] = whole.layers[1] = wrap(whole.layers[0])
    twin = duplicate(whole)
    assert twin.layers[0] is twin.layers[1]


def test_a_copys_attributes_are_its_own(duplicate):
    wrapper = rt.swap_wrapper(block(), Policy(), True)
    twin = duplicate(wrapper)
    assert type(twin.policy_fn) is Policy
    assert twin.policy_fn is not wrapper.policy_fn
    assert twin.group_swap is True
    twin.group_swap = False
    assert wrapper.group_swap is True


def test_a_wrapper_with_a_function_as_policy_pickles(duplicate):
    assert duplicate(rt.swap_wrapper(block(), choose)).policy_fn is choose
    assert duplicate(rt.checkpoint_wrapper(block(), swap_inputs=True)).swap_inputs is True


def test_a_policy_that_does_not_pickle_is_refused_by_pickle():
    wrapper = rt.swap_wrapper(block(), lambda tensor: None)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(wrapper)
    assert copy.deepcopy(wrapper).policy_fn is wrapper.policy_fn


def test_a_pool_is_shared_by_deep_copies_and_does_not_stop_pickling():
    wrapper = rt.swap_wrapper(block(), cpu_pool=rt.HostPool("1 MiB"))
    assert copy.deepcopy(wrapper).cpu_pool is wrapper.cpu_pool
    assert pickled(wrapper).cpu_pool.max_bytes == 1 << 20


def test_a_copy_is_known_to_be_wrapped_and_overlaps_as_such(wrap, duplicate):
    twin = duplicate(wrap(block()))
    with pytest.raises(restow.Overlap):
        wrap(twin.unwrap_module)
    with pytest.raises(restow.Overlap):
        rt.swap_wrapper(twin)


def test_a_wrapped_callable_is_copied(wrap):
    wrapper = wrap(Callable(3.0))
    twin = copy.deepcopy(wrapper)
    assert twin.unwrap_module._fn is not wrapper.unwrap_module._fn
    assert twin.unwrap_module._fn.factor == 3.0
    assert pickled(wrap(choose)).unwrap_module._fn is choose


def test_copies_leave_the_table_when_they_die(wrap, duplicate):
    wrapper = wrap(block())
    before = _overlap.entries()
    copies = [duplicate(wrapper) for _ in range(5)]
    assert _overlap.entries() > before
    del copies
    gc.collect()
    assert _overlap.entries() == before


def test_a_copy_that_dies_leaves_the_original_wrapped(wrap):
    wrapper = wrap(block())
    shallow = copy.copy(wrapper)
    assert shallow.unwrap_module is wrapper.unwrap_module
    del shallow
    gc.collect()
    with pytest.raises(restow.Overlap):
        wrap(wrapper.unwrap_module)


def test_copies_have_sites_of_their_own_and_keep_names_given_by_a_plan(wrap, duplicate):
    wrapper = wrap(block())
    assert wrapper._site.startswith("Block#")
    assert duplicate(wrapper)._site.startswith("Block#")
    assert duplicate(wrapper)._site != wrapper._site
    wrapper._site = "layers.0"
    assert duplicate(wrapper)._site == "layers.0"


def test_a_released_wrapper_stays_a_pass_through_when_copied(wrap, duplicate):
    wrapper = wrap(block())
    rt.unwrap(wrapper)
    twin = duplicate(wrapper)
    x = torch.randn(3, 4)
    assert torch.equal(twin(x), twin.unwrap_module(x))
    wrap(twin.unwrap_module)


def test_hooks_on_a_wrapper_are_copied_with_it():
    whole = PassThrough(nn.Identity())
    whole.register_forward_hook(double_it)
    assert copy.deepcopy(whole)(1) == pickled(whole)(1) == 2


def double_it(module, args, result):
    return 2 * result
