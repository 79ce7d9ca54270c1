"""Order, threads, streams and exceptions: cases 11 to 15 and 23."""

import gc
import threading

import pytest
import torch
from helpers import (
    RECOMPUTES,
    SWAPS,
    WAYS,
    Boom,
    FailingBackward,
    assert_same,
    boom,
    eventually,
    gradients,
    message_of,
    plain,
    settle,
    swap,
)
from torch import nn

import restow.emulator as emu
import restow.torch as rt


def network(device, layers=3, width=6):
    torch.manual_seed(0)

    def part():
        return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))

    return nn.ModuleList(part() for _ in range(layers)).to(device)


def through(run, layers, x):
    for layer in layers:
        x = run(layer, x)
    return x


def test_case_11_a_leaf_accumulates_once_and_its_hooks_fire_once(setting):
    def scenario(run):
        x, other = setting.leaf(4, 5), setting.random(4, 5)
        calls = []
        x.register_hook(lambda grad: calls.append("tensor"))
        x.register_post_accumulate_grad_hook(lambda t: calls.append("accumulated"))
        for _ in range(2):
            run(lambda a, b: (a * b).exp() * a * b, x, other).sum().backward()
        assert other.grad is None
        return gradients(x) + [calls]

    setting.compare(scenario)


def test_case_11_inputs_of_which_none_wants_a_gradient(setting):
    def scenario(run):
        layers = network(setting.device, 1)
        x = setting.random(4, 6)
        run(layers[0], x).sum().backward()
        return gradients(*layers.parameters())

    setting.compare(scenario)


def test_case_12_forward_on_a_side_stream_and_backward_from_another(emu_setting):
    def scenario(run):
        layers = network("emu")
        x = emu_setting.leaf(4, 6)
        first, second = torch.Stream(device="emu"), torch.Stream(device="emu")
        first.wait_stream(torch.accelerator.current_stream())
        with first:
            loss = through(run, layers, x).sum()
        second.wait_stream(first)
        with second:
            loss.backward()
        torch.accelerator.current_stream().wait_stream(second)
        torch.accelerator.current_stream().wait_stream(first)
        result = gradients(x, *layers.parameters())
        # What the side streams made is freed behind its use here.
        torch.accelerator.synchronize()
        return result

    emu_setting.compare(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_case_12_slow_copies_change_nothing(emu_setting, way):
    emu.configure(h2d="1MB/s", d2h="1MB/s", op_cost="1us")

    def scenario(run):
        layers = network("emu")
        x = emu_setting.leaf(4, 6)
        for _ in range(3):
            through(run, layers, x).sum().backward()
        return gradients(x, *layers.parameters())

    emu_setting.compare(scenario, [way])


def copied_by_hand(waits):
    """Moves what is saved on a stream of its own, with or without the waits that need be."""
    side = torch.Stream(device="emu")

    def pack(t):
        if t.is_leaf:
            return t
        host = torch.empty(t.shape, pin_memory=True)
        if waits:
            side.wait_stream(torch.accelerator.current_stream())
        with side:
            host.copy_(t, non_blocking=True)
        t.record_stream(side)
        return host

    def unpack(host):
        if not host.is_cpu:
            return host
        with side:
            t = torch.empty(host.shape, device="emu")
            t.copy_(host, non_blocking=True)
        if waits:
            torch.accelerator.current_stream().wait_stream(side)
            t.record_stream(torch.accelerator.current_stream())
        return t

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


@pytest.mark.parametrize("waits", [True, False])
def test_case_12_a_missing_wait_is_caught_here(emu_setting, waits):
    x = emu_setting.leaf(4, 6)
    with copied_by_hand(waits):
        y = ((x * 2).exp() * x).sum()
    y.backward()
    torch.accelerator.synchronize()
    kinds = {race.kind for race in emu.races()}
    emu.clear_races()
    assert ("missing wait before use" in kinds) is not waits


@pytest.mark.parametrize("way", SWAPS)
def test_case_13_backward_starts_while_copies_out_are_in_flight(emu_setting, way):
    # 4 x 6 numbers take 96 us at this rate, and nothing else takes time.
    emu.configure(d2h="1MB/s", h2d="1MB/s")

    def scenario(run):
        layers = network("emu")
        x = emu_setting.leaf(4, 6)
        through(run, layers, x).sum().backward()
        return gradients(x, *layers.parameters())

    emu_setting.compare(scenario, [way])


def test_case_13_two_heads_unpack_in_an_order_of_their_own(setting):
    def scenario(run):
        layers = network(setting.device, 4)
        x = setting.leaf(4, 6)
        trunk = through(run, layers[:2], x)
        left, right = run(layers[2], trunk).sum(), run(layers[3], trunk).square().sum()
        first = torch.autograd.grad(left, list(layers[2].parameters()), retain_graph=True)
        second = torch.autograd.grad(right, [x], retain_graph=True)
        third = torch.autograd.grad(left, [x], retain_graph=True)
        (left + right).backward()
        return [*first, *second, *third, *gradients(x, *layers.parameters())]

    setting.compare(scenario)


def test_case_14_partial_backward(setting):
    def scenario(run):
        layers = network(setting.device)
        x = setting.leaf(4, 6)
        loss = through(run, layers, x).sum()
        some = torch.autograd.grad(loss, [layers[1][0].weight])
        return [g.clone() for g in some]

    setting.compare(scenario)


def test_case_14_a_graph_dropped_without_backward(setting):
    def scenario(run):
        layers = network(setting.device)
        x = setting.leaf(4, 6)
        through(run, layers, x)
        through(run, layers, x).sum().backward()
        return gradients(x, *layers.parameters())

    setting.compare(scenario)


def test_case_14_an_exception_in_forward(setting):
    def scenario(run):
        layers = network(setting.device)
        x = setting.leaf(4, 6)

        def fails(t):
            y = layers[1](t).exp()
            raise Boom(str(y.shape))

        with boom():
            run(fails, run(layers[0], x))
        through(run, layers, x).sum().backward()
        return gradients(x, *layers.parameters())

    setting.compare(scenario)


def test_case_14_an_exception_in_backward(setting):
    def scenario(run):
        layers = network(setting.device)
        x = setting.leaf(4, 6)
        armed = [True]

        def forward():
            y = run(layers[0], x)
            y = run(lambda t: FailingBackward.apply(t.exp(), lambda: armed[0]).tanh(), y)
            return run(layers[2], y).sum()

        loss = forward()
        with boom():
            loss.backward()
        del loss
        failed = gradients(x, *layers.parameters())
        armed[0] = False
        forward().backward()
        return failed + gradients(x, *layers.parameters())

    setting.compare(scenario)


def test_case_15_inputs_first_and_weights_later_on_one_graph(setting):
    def scenario(run):
        layers = network(setting.device)
        x = setting.leaf(4, 6)
        loss = through(run, layers, x).square().sum()
        inputs = torch.autograd.grad(loss, [x], retain_graph=True)
        weights = torch.autograd.grad(loss, list(layers.parameters()))
        return [*inputs, *weights]

    setting.compare(scenario)


def test_case_15_the_two_halves_of_a_zero_bubble_schedule(setting):
    from torch.distributed.pipelining import _backward

    def scenario(run):
        layers = network(setting.device)
        x = setting.leaf(4, 6)
        loss = through(run, layers, x).square().sum()
        weights = list(layers.parameters())
        d_inputs, groups = _backward.stage_backward_input([loss], None, [x], iter(weights))
        d_weights = _backward.stage_backward_weight(iter(weights), groups)
        del groups
        assert len(d_weights) == len(weights)
        return [*d_inputs, *gradients(*weights)]

    # Recompute for each half is keyed by graph task, as in torch.checkpoint.
    setting.compare(scenario, [way for way in WAYS if way not in RECOMPUTES])


def one_forward_one_backward(run, layers, batches, depth):
    """`depth` micro-batches in flight, each as soon as its forward is done."""
    flying, results = [], []
    for batch in batches:
        flying.append(through(run, layers, batch).square().sum())
        if len(flying) == depth:
            results.append(flying[0].detach())
            flying.pop(0).backward()
    while flying:
        results.append(flying[0].detach())
        flying.pop(0).backward()
    return results


def test_case_15_four_micro_batches_in_flight(setting):
    def scenario(run):
        layers = network(setting.device)
        batches = [setting.leaf(4, 6) for _ in range(6)]
        losses = one_forward_one_backward(run, layers, batches, 4)
        return losses + gradients(*batches, *layers.parameters())

    setting.compare(scenario)


def test_case_15_micro_batches_whose_regions_interleave(setting):
    def scenario(run):
        layers = network(setting.device)
        batches = [setting.leaf(4, 6) for _ in range(4)]
        flying = batches
        for layer in layers:
            flying = [run(layer, t) for t in flying]
        for i in (2, 0, 3, 1):
            flying[i].square().sum().backward()
        return gradients(*batches, *layers.parameters())

    setting.compare(scenario)


class Trainee:
    """A model and its batches, on the device before any thread starts."""

    def __init__(self, device, seed):
        torch.manual_seed(seed)
        self.layers = [nn.Linear(6, 6).to(device) for _ in range(3)]
        self.batches = [torch.randn(4, 6).to(device) for _ in range(4)]
        self.failed = []

    def train(self, run):
        try:
            for x in self.batches:
                for layer in self.layers:
                    x = run(lambda t, layer=layer: layer(t).tanh(), x)
                x.sum().backward()
        except Exception as error:
            self.failed.append(repr(error))

    def gradients(self):
        return gradients(*(p for layer in self.layers for p in layer.parameters()))


@pytest.mark.parametrize("way", WAYS)
def test_case_15_two_threads_train_two_models(setting, way):
    expected, actual = ([Trainee(setting.device, seed) for seed in (1, 2)] for _ in range(2))
    settle()
    for one in expected:
        one.train(plain)
    threads = [threading.Thread(target=one.train, args=(WAYS[way],), daemon=True) for one in actual]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "the threads wait for one another"
    assert [one.failed for one in actual] == [[], []]
    settle()
    assert_same([one.gradients() for one in expected], [one.gradients() for one in actual])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("way", WAYS)
def test_case_23_forwards_without_gradients_save_nothing(setting, way, mode):
    layers = network(setting.device)
    x = setting.leaf(4, 6)
    rt.reset_stats()
    with mode():
        y = through(WAYS[way], layers, x)
        assert_same(through(plain, layers, x), y)
    assert eventually(lambda: rt.stats().units == 0)
    assert rt.stats().bytes_out == 0
    assert not y.requires_grad


def test_case_23_evaluation_between_forward_and_backward(setting):
    def scenario(run):
        layers = network(setting.device)
        x = setting.leaf(4, 6)
        loss = through(run, layers, x).sum()
        layers.eval()
        with torch.no_grad():
            value = through(run, layers, x.detach() * 2)
        layers.train()
        loss.backward()
        return [value] + gradients(x, *layers.parameters())

    setting.compare(scenario)


@pytest.mark.parametrize("way", ["swap", "region", "keep"])
def test_case_23_saving_an_inference_tensor_is_torchs_own_error(setting, way):
    with torch.inference_mode():
        constant = setting.random(4, 6)
    x = setting.leaf(4, 6)
    expected = message_of(RuntimeError, plain, torch.mul, x, constant)
    assert message_of(RuntimeError, WAYS[way], torch.mul, x, constant) == expected
    assert eventually(lambda: rt.stats().units == 0)


def test_case_14_nothing_waits_for_the_garbage_collector(setting):
    layers = network(setting.device)
    x = setting.leaf(4, 6)
    gc.disable()
    try:
        for _ in range(3):
            loss = through(swap, layers, x).sum()
            assert rt.stats().units > 0
            loss.backward()
            del loss
            assert eventually(lambda: rt.stats().units == 0)
        y = through(swap, layers, x)
        del y
        assert eventually(lambda: rt.stats().units == 0)
    finally:
        gc.enable()
