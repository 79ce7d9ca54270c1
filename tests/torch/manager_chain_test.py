"""Chains of layers: what leaves when, passes kept apart, and what is left of a layer that is gone."""

import copy
import gc
import pickle
import threading

import pytest
import torch
from helpers import Boom, assert_same, boom, eventually, gradients, message_of, settle
from torch import nn

import restow
import restow.emulator as emu
import restow.torch as rt
from restow.torch._load import native

WIDTH, ROWS = 32, 16
# What a `Block` saves beside its weights: its input, and the linear layer's output for the GELU.
SAVED = 2 * 4 * ROWS * WIDTH


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))


@pytest.fixture(autouse=True)
def manager():
    """Every test leaves no group and no active group behind."""
    yield rt.SwapManager()
    rt.SwapManager().reset()
    assert rt.SwapManager().active_group_count() == 0
    assert native.group_names() == []


def blocks(device, count=4, kind=Block):
    torch.manual_seed(0)
    return nn.ModuleList(kind() for _ in range(count)).to(device)


def chained(layers, wrap=rt.swap_wrapper):
    """Wrapped and linked in order."""
    for index, layer in enumerate(layers):
        layers[index] = wrap(layer)
    link(layers)
    return layers


def link(layers):
    for first, second in zip(layers, layers[1:], strict=False):
        rt.SwapManager().set_forward_prefetch_layer(first, second)


def run(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def train(layers, xs, order=None):
    """Forwards of all micro-batches, then their backwards in `order`; what comes out."""
    losses = [run(layers, x).square().sum() for x in xs]
    for index in order or range(len(xs)):
        losses[index].backward()
    return [loss.detach() for loss in losses] + gradients(*layers.parameters())


def batches(device, count=1):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(ROWS, WIDTH, generator=generator).to(device) for _ in range(count)]


def test_a_chain_moves_all_but_its_last_layer_and_brings_it_back_in_time(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    assert_same(expected, train(chained(blocks(setting.device)), xs))
    stats = rt.stats()
    # The next layer's input is saved by that layer, so each of three layers moves its own two.
    assert (stats.bytes_out, stats.bytes_in) == (3 * SAVED, 3 * SAVED)
    assert stats.demand_loads == 0


def test_all_memory_but_the_last_layers_is_given_up(emu_setting):
    x = batches("emu")[0]
    one = 4 * ROWS * WIDTH
    # Of each layer its input and the GELU's; `x` was there before. Then the result.
    for layers, tensors in ((blocks("emu"), 3 + 4 + 1), (chained(blocks("emu")), 2 + 1)):
        before = emu.memory_allocated()
        out = run(layers, x)
        settle()
        assert emu.memory_allocated() - before == tensors * one
        del out


def test_the_group_before_is_asked_back_when_a_layers_backward_begins(emu_setting):
    layers = chained(blocks("emu"))
    seen = []
    loss = run(layers, batches("emu")[0]).square().sum()
    layers[3].unwrap_module.linear.weight.register_hook(
        lambda gradient: seen.append(rt.stats().bytes_in)
    )
    loss.backward()
    assert seen == [SAVED]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_several_micro_batches_are_kept_apart(setting, order):
    xs = batches(setting.device, 3)
    expected = train(blocks(setting.device), xs, order)
    layers = chained(blocks(setting.device))
    losses = [run(layers, x).square().sum() for x in xs]
    for done, index in enumerate(order):
        losses[index].backward()
        assert rt.stats().bytes_in == (done + 1) * 3 * SAVED
    assert_same(expected, [loss.detach() for loss in losses] + gradients(*layers.parameters()))
    assert rt.stats().bytes_out == 9 * SAVED


def test_several_models_are_kept_apart(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    models = [chained(blocks(setting.device)) for _ in range(2)]
    losses = [run(layers, xs[0]).square().sum() for layers in models]
    for loss in losses:
        loss.backward()
    for layers, loss in zip(models, losses, strict=True):
        assert_same(expected, [loss.detach()] + gradients(*layers.parameters()))
    assert rt.SwapManager().active_group_count() == 8


def test_links_over_a_layer_give_interleaved_chains(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device, 6), xs)
    layers = blocks(setting.device, 6)
    for index, layer in enumerate(layers):
        layers[index] = rt.swap_wrapper(layer)
    for index in range(4):
        rt.SwapManager().set_forward_prefetch_layer(layers[index], layers[index + 2])
    assert_same(expected, train(layers, xs))
    assert rt.stats().bytes_out == 4 * SAVED
    assert rt.stats().demand_loads == 0


def test_a_layer_that_is_left_out_of_a_pass_stops_nobody(setting):
    xs = batches(setting.device)
    plain = blocks(setting.device)
    expected = train(nn.ModuleList([plain[0], plain[2], plain[3]]), xs)
    layers = chained(blocks(setting.device))
    assert_same(expected, train(nn.ModuleList([layers[0], layers[2], layers[3]]), xs))
    assert rt.stats().bytes_out == 2 * SAVED


class InADict(Block):
    def forward(self, x):
        return {"hidden": [super().forward(x["hidden"][0])]}


def test_layers_may_return_dicts(setting):
    def step(layers):
        loss = run(layers, {"hidden": batches(setting.device)})["hidden"][0].square().sum()
        loss.backward()
        return [loss.detach()] + gradients(*layers.parameters())

    expected = step(blocks(setting.device, kind=InADict))
    assert_same(expected, step(chained(blocks(setting.device, kind=InADict))))
    assert rt.stats().bytes_out == 3 * SAVED
    assert rt.stats().demand_loads == 0


def test_a_layer_called_twice_in_a_forward_has_two_passes(setting):
    xs = batches(setting.device)
    plain = blocks(setting.device, 2)
    expected = train(nn.ModuleList([plain[0], plain[0], plain[1]]), xs)
    layers = chained(blocks(setting.device, 2))
    assert_same(expected, train(nn.ModuleList([layers[0], layers[0], layers[1]]), xs))
    assert rt.stats().bytes_out == 2 * SAVED


def test_checkpointed_layers_move_their_inputs(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    layers = chained(
        blocks(setting.device),
        lambda layer: rt.checkpoint_wrapper(layer, swap_inputs=True, min_bytes=0),
    )
    assert_same(expected, train(layers, xs))
    assert rt.stats().bytes_out == 3 * SAVED // 2
    assert rt.stats().recomputed_regions == 4


def test_wrapped_parts_inside_linked_layers_move(setting):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = rt.swap_wrapper(Block())

        def forward(self, x):
            return self.inner(x)

    def step(layers):
        return train(layers, batches(setting.device))

    expected = step(blocks(setting.device))
    layers = blocks(setting.device, kind=Outer)
    link(layers)
    assert_same(expected, step(layers))
    assert rt.stats().bytes_out == 3 * SAVED


def test_group_swap_sends_a_layers_small_tensors_in_one_copy(emu_setting):
    rt.configure(min_bytes="1MiB")
    xs = batches("emu")
    expected = train(blocks("emu"), xs)
    layers = chained(blocks("emu"), lambda layer: rt.swap_wrapper(layer, group_swap=True))
    assert_same(expected, train(layers, xs))
    assert rt.stats().moved_units == 3
    assert rt.stats().bytes_out == 3 * SAVED


class Marked(Block):
    """Marks what the GELU saves; the linear layer's input stays."""

    def forward(self, x):
        return nn.functional.gelu(rt.swap_tensor_wrapper(self.linear(x), "middle"))


def test_marked_tensors_of_a_linked_layer_move_without_any_wrapper(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    layers = blocks(setting.device, kind=Marked)
    link(layers)
    assert_same(expected, train(layers, xs))
    assert rt.stats().bytes_out == 3 * SAVED // 2


def test_no_group_is_active_outside_a_layer_even_after_an_exception(setting, manager):
    class Names(Block):
        def forward(self, x):
            seen.append((manager.get_current_group_name(), manager.is_last_group()))
            if len(seen) == 4:
                raise Boom
            return super().forward(x)

    seen = []
    layers = chained(blocks(setting.device, 2, Names))
    xs = batches(setting.device)
    train(layers, xs)
    assert manager.get_current_group_name() is None
    with boom():
        train(layers, xs)
    assert manager.get_current_group_name() is None
    names = [manager.group_name_of(layer) for layer in layers]
    assert seen == [(names[0], False), (names[1], True)] * 2
    del layers


def test_after_an_exception_the_next_step_is_right(setting):
    class Fails(Block):
        failing = False

        def forward(self, x):
            y = super().forward(x)
            if self.failing:
                raise Boom
            return y

    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    layers = chained(blocks(setting.device, kind=Fails))
    layers[2].unwrap_module.failing = True
    with boom():
        train(layers, xs)
    layers[2].unwrap_module.failing = False
    gc.collect()
    assert native.group_names() == []
    assert_same(expected, train(layers, xs))


def test_a_forward_without_backward_leaves_no_group(setting):
    layers = chained(blocks(setting.device))
    out = run(layers, batches(setting.device)[0])
    assert len(native.group_names()) == 4
    del out
    assert eventually(lambda: native.group_names() == [])
    assert eventually(lambda: rt.stats().units == 0)


def test_no_grad_and_disabled_forwards_between_are_plain(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    layers = chained(blocks(setting.device))
    loss = run(layers, xs[0]).square().sum()
    with torch.no_grad():
        run(layers, xs[0])
    with restow.disabled():
        run(layers, xs[0])
    assert rt.stats().bytes_out == 3 * SAVED
    loss.backward()
    assert_same(expected, [loss.detach()] + gradients(*layers.parameters()))


def test_a_graph_may_be_used_twice(setting):
    def step(layers):
        loss = run(layers, batches(setting.device)[0]).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        return gradients(*layers.parameters())

    assert_same(step(blocks(setting.device)), step(chained(blocks(setting.device))))


def test_a_partial_backward_leaves_the_next_step_right(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    layers = chained(blocks(setting.device))
    hidden = run(layers[:2], xs[0]).detach().requires_grad_()
    torch.autograd.grad(run(layers[2:], hidden).sum(), hidden)
    assert_same(expected, train(layers, xs))


def test_copies_of_a_chain_are_not_in_it(setting, manager):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    layers = chained(blocks(setting.device))
    twin = copy.deepcopy(layers)
    assert [manager.group_name_of(layer) for layer in twin] == [None] * 4
    assert_same(expected, train(twin, xs))
    assert_same(expected, train(layers, xs))
    again = pickle.loads(pickle.dumps(layers[0].unwrap_module))
    assert manager.group_name_of(again) is None
    assert manager.active_group_count() == 4


def test_nothing_is_planted_on_a_layer_and_its_death_takes_its_group(manager):
    layers = blocks("cpu")
    before = [set(vars(layer)) for layer in layers]
    link(layers)
    assert [set(vars(layer)) for layer in layers] == before
    assert manager.active_group_count() == 4
    del layers
    gc.collect()
    assert manager.active_group_count() == 0


def test_threads_have_their_own_chains(setting):
    xs = batches(setting.device)
    expected = train(blocks(setting.device), xs)
    models = [chained(blocks(setting.device)) for _ in range(2)]
    results = {}

    def work(index):
        results[index] = [train(models[index], xs) for _ in range(3)][0]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for index in range(2):
        # Three steps without zeroing: gradients of the last are sums; the losses are those of one.
        assert_same(expected[0], results[index][0])
    assert_same(gradients(*models[0].parameters()), gradients(*models[1].parameters()))


def test_linking_twice_is_no_change(manager):
    layers = blocks("cpu", 3)
    link(layers)
    names = [manager.group_name_of(layer) for layer in layers]
    link(layers)
    assert [manager.group_name_of(layer) for layer in layers] == names
    assert len(set(names)) == 3
    assert [manager.is_last_group(name) for name in names] == [False, False, True]
    assert [len(layer._forward_pre_hooks) for layer in layers] == [1, 1, 1]


def test_bad_links_are_refused_and_change_nothing(manager):
    a, b, c, other = blocks("cpu")
    manager.set_forward_prefetch_layer(a, b)
    manager.set_forward_prefetch_layer(b, c)
    link_layers = manager.set_forward_prefetch_layer
    assert "itself" in message_of(restow.InputError, link_layers, other, other)
    assert "already linked to" in message_of(restow.Error, link_layers, a, other)
    assert "already follows" in message_of(restow.Error, link_layers, other, b)
    assert "circle" in message_of(restow.Error, link_layers, c, a)
    assert "modules" in message_of(TypeError, link_layers, a, print)
    assert manager.group_name_of(other) is None
    assert manager.active_group_count() == 3


def test_unlinking_a_layer_splits_its_chain(setting, manager):
    layers = chained(blocks(setting.device))
    manager.unregister_forward_prefetch_layer(layers[1])
    assert manager.group_name_of(layers[1]) is None
    assert manager.is_last_group(manager.group_name_of(layers[0]))
    xs = batches(setting.device)
    assert_same(train(blocks(setting.device), xs), train(layers, xs))
    message = message_of(restow.Error, manager.unregister_forward_prefetch_layer, layers[1])
    assert "in no chain; allowed: set_forward_prefetch_layer" in message


def test_without_hooks_a_layers_group_is_steered_by_hand(setting, manager):
    layers = chained(blocks(setting.device, 2))
    name = manager.group_name_of(layers[0])
    message = message_of(restow.Error, manager.launch_offload, name)
    assert "unregister_forward_prefetch_hooks" in message
    for layer in layers:
        manager.unregister_forward_prefetch_hooks(layer)
        assert not layer._forward_pre_hooks
        assert not layer._forward_hooks
    x = batches(setting.device)[0].requires_grad_()
    with manager.group_context(name):
        hidden = layers[0](x)
    manager.launch_offload(name)
    manager.wait_offload(name)
    assert rt.stats().bytes_out == SAVED
    manager.launch_load(name)
    manager.wait_load(name)
    hidden.sum().backward()
    last = manager.group_name_of(layers[1])
    assert "stay on the device" in message_of(restow.Error, manager.launch_offload, last)


def test_compiled_models_run_their_chain(cpu_setting):
    xs = batches("cpu")
    expected = train(blocks("cpu"), xs)
    layers = chained(blocks("cpu"))
    compiled = torch.compile(lambda x: run(layers, x), backend="eager")
    loss = compiled(xs[0]).square().sum()
    loss.backward()
    assert_same(expected, [loss.detach()] + gradients(*layers.parameters()))
    assert rt.stats().bytes_out == 3 * SAVED
