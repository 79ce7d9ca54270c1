"""Random small training programs, told to the last detail by a seed.

A program is a stack of layers and a list of events: forwards of micro-batches, of which several may
be in flight, backwards in any order, partial and repeated ones, forwards without gradients,
exceptions, dropped graphs, and optimizer steps. `Program(seed).run(woven=False)` runs it in plain
torch, ``woven=True`` with random regions around random groups of layers, and a hand that steers the
groups between the events; both return the same list of what a user could see.
"""

import dataclasses
import random

import torch
from helpers import WAYS, Boom, FailingBackward, bits, must_save, must_swap
from program_policies import draw_selective
from program_steering import Hand, draw_steered
from torch.nn import functional
from torch.utils import checkpoint as torch_checkpoint

import restow.torch as rt

ROWS, WIDTH = 3, 8


@dataclasses.dataclass
class Weights:
    """What a layer holds: two that are trained, one frozen, and one that is no parameter."""

    square: torch.nn.Parameter
    bias: torch.nn.Parameter
    frozen: torch.nn.Parameter
    buffer: torch.Tensor


# Each operator takes x of ROWS x WIDTH and the layer's weights, and returns the same shape. What it
# changes in place it has made itself, and nobody has saved it before.


def linear(x, w):
    return functional.linear(x, w.square, w.bias)


def transposed(x, w):
    return (x @ w.square.t()).add_(w.bias).tanh()


def frozen(x, w):
    return functional.linear(x, w.frozen).sigmoid() * w.buffer


def chunks(x, w):
    q, k, v = functional.linear(x, w.square.repeat(3, 1)).chunk(3, -1)
    return q * k.softmax(-1) * v


def strided(x, w):
    y = x * w.bias
    return torch.cat([y[:, ::2].sin() * y[:, ::2], y[:, 1::2].exp().clamp(max=2.0)], 1)


def flipped(x, w):
    return (x.t().contiguous().sin() * x.t()).t() * 0.5


def expanded(x, w):
    return x[:, :1].expand(ROWS, WIDTH) * x.tanh() * x[:1].expand(ROWS, WIDTH)


def normed(x, w):
    return functional.layer_norm(x, (WIDTH,), w.bias, w.buffer)


def dropped(x, w):
    return functional.dropout(x * w.bias, 0.25)


def in_place_before(x, w):
    y = x + w.bias
    y.mul_(0.5)
    y[0].add_(1)
    y[:, 2:4].neg_()
    return y.sin() * y


def in_place_after(x, w):
    y = x + w.bias
    z = y * 2
    y.add_(1)
    return z + y


def rectified(x, w):
    return functional.relu(functional.linear(x, w.square), inplace=True) * 0.5


def masked(x, w):
    return torch.where(x > 0, x * x, x.abs().add(1).sqrt()).clamp(-3, 3)


def indexed(x, w):
    order = torch.arange(WIDTH - 1, -1, -1, device=x.device)
    return x[:, order].sin() + x.gather(1, (x > 0).long())


def cubic(x, w):
    y = x.view(1, ROWS, WIDTH).expand(2, ROWS, WIDTH)
    return functional.gelu(torch.matmul(y, w.square)).sum(0) * 0.25


def depends(x, w):
    """What runs depends on the numbers."""
    return (x * w.bias).sin() if x.detach().sum().item() > 0 else (x @ w.square).tanh()


def branched(x, w):
    left, right = x.sigmoid(), (x * w.bias).sin()
    return left * right + left.detach() * w.buffer


OPERATORS = [
    linear,
    transposed,
    frozen,
    chunks,
    strided,
    flipped,
    expanded,
    normed,
    dropped,
    in_place_before,
    in_place_after,
    rectified,
    masked,
    indexed,
    cubic,
    depends,
    branched,
]


@dataclasses.dataclass
class Mood:
    """What is to go wrong now. Apart from the program, so that nothing refers to itself."""

    armed: bool = False
    failing: object = None


class Layer(torch.nn.Module):
    """One to three operators in a row."""

    def __init__(self, draw, mood):
        super().__init__()
        self.chosen = [draw.choice(OPERATORS) for _ in range(draw.randint(1, 3))]
        self.fails_in_backward = draw.random() < 0.3
        self.mood = mood
        self.square = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / 3)
        self.bias = torch.nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.frozen = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / 3, requires_grad=False)
        self.register_buffer("buffer", torch.rand(WIDTH) + 0.5)

    def forward(self, x):
        weights = Weights(self.square, self.bias, self.frozen, self.buffer)
        mood = self.mood
        for operator in self.chosen:
            x = operator(x, weights)
        if self.fails_in_backward:
            x = FailingBackward.apply(x, lambda: mood.armed)
        if mood.failing is self:
            raise Boom("in forward")
        return x * 1.0


def save_on_cpu(fn, x):
    if x.is_cpu:
        # Torch packs the tensor itself then, which holds its own node: a graph that is dropped
        # without backward would never be freed, with or without us.
        return fn(x)
    with torch.autograd.graph.save_on_cpu():
        return fn(x)


def torchs_checkpoint(fn, x):
    return torch_checkpoint.checkpoint(fn, x, use_reentrant=False)


def mixed(fn, x):
    """A policy that lets every other tensor stay."""
    turn = iter(range(1 << 30))
    return rt.swap(fn, x, policy_fn=lambda t: (must_swap, must_save)[next(turn) % 2](t))


def by_size(fn, x):
    return rt.swap(fn, x)


def fused(fn, x):
    with rt.region("swap", group_swap=True):
        return fn(x)


def saver(fn, x):
    with rt.AsyncSaveOnCpu(policy_fn=must_swap):
        return fn(x)


def wrapped_swap(fn, x):
    return rt.swap_wrapper(fn, must_swap)(x)


def wrapped_checkpoint(fn, x):
    return rt.checkpoint_wrapper(fn)(x)


def grouped(fn, x):
    with rt.group("programs"):
        return WAYS["swap"](fn, x)


def to_file(fn, x):
    with rt.region("swap", policy_fn=must_swap, tier="file"):
        return fn(x)


def wrapped_to_file(fn, x):
    return rt.swap_wrapper(fn, must_swap, tier="file")(x)


def inputs_to_file(fn, x):
    return rt.checkpoint_wrapper(fn, swap_inputs=True, tier="file")(x)


REGIONS = [
    *WAYS.values(),
    mixed,
    by_size,
    fused,
    saver,
    wrapped_swap,
    wrapped_checkpoint,
    grouped,
    to_file,
    wrapped_to_file,
    inputs_to_file,
]
FOREIGN = [save_on_cpu, torchs_checkpoint]


def draw_way(draw):
    kind = draw.random()
    if kind < 0.1:
        return draw.choice(FOREIGN)
    if kind < 0.4:
        return draw_selective(draw)
    if kind < 0.5:
        return draw_steered(draw)
    return draw.choice(REGIONS)


class Chain:
    """Runs layers in a row; groups of them in regions, which may hold regions."""

    def __init__(self, draw, layers, depth=0):
        self.parts = []
        while layers:
            count = draw.randint(1, min(3, len(layers)))
            group, layers = layers[:count], layers[count:]
            inner = Chain(draw, group, depth + 1) if depth < 2 and draw.random() < 0.4 else None
            way = draw_way(draw) if draw.random() < 0.75 else None
            self.parts.append((way, group, inner))

    def __call__(self, x):
        for way, group, inner in self.parts:
            if way is None:
                x = self.body(x, group, inner)
            else:
                x = way(lambda t, g=group, i=inner: self.body(t, g, i), x)
        return x

    @staticmethod
    def body(x, group, inner):
        if inner is not None:
            return inner(x)
        for layer in group:
            x = layer(x)
        return x

    def describe(self, level=1):
        lines = []
        for way, group, inner in self.parts:
            names = [[o.__name__ for o in layer.chosen] for layer in group]
            lines.append("  " * level + f"{way.__name__ if way else 'plain'}: {names}")
            if inner is not None:
                lines += inner.describe(level + 1)
        return lines


class Program:
    """One program. `device` and the rest of the setting belong to the caller."""

    def __init__(self, seed, device):
        self.seed, self.device = seed, device
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.mood = Mood()
        self.layers = [Layer(draw, self.mood) for _ in range(draw.randint(1, 5))]
        for layer in self.layers:
            layer.to(device)
        self.chain = Chain(draw, self.layers)
        self.events = self.draw_events(draw)
        self.start = [p.detach().clone() for p in self.parameters()]

    def parameters(self):
        return [p for layer in self.layers for p in layer.parameters()]

    def trained(self):
        return [p for p in self.parameters() if p.requires_grad]

    @staticmethod
    def draw_events(draw):
        events, alive, number = [], [], 0
        for _ in range(draw.randint(3, 7)):
            kinds = ["forward", "forward", "evaluate", "fail forward"]
            if alive:
                kinds += ["backward"] * 4 + ["again", "part", "part first", "fail backward", "drop"]
                kinds += ["second order"]
            else:
                kinds += ["step"]
            kind = draw.choice(kinds)
            if kind in ("forward", "fail forward", "evaluate", "step"):
                events.append((kind, number, draw.random()))
                if kind == "forward":
                    alive.append(number)
                number += 1
                continue
            chosen = draw.choice(alive)
            events.append((kind, chosen, draw.random()))
            if kind not in ("again", "part first"):
                alive.remove(chosen)
        return events + [("backward", number, 0.0) for number in alive]

    def run(self, woven):
        """What a user sees: losses, gradients, exceptions, and the random numbers after it all."""
        with torch.no_grad():
            for p, value in zip(self.parameters(), self.start, strict=True):
                p.copy_(value)
        torch.manual_seed(self.seed)
        self.seen, self.losses, self.inputs = [], {}, {}
        self.call = self.chain if woven else self.plain
        hand = Hand(self.seed, self.layers) if woven else None
        try:
            for kind, number, fraction in self.events:
                getattr(self, kind.replace(" ", "_"))(number, fraction)
                if hand is not None:
                    hand.steer()
            self.note(torch.rand(2), torch.rand(2, device=self.device))
            return self.seen
        finally:
            if hand is not None:
                hand.let_go()
            self.mood.armed, self.mood.failing = False, None
            self.losses, self.inputs, self.seen, self.call = {}, {}, [], None
            for p in self.parameters():
                p.grad = None

    def plain(self, x):
        return Chain.body(x, self.layers, None)

    def note(self, *tensors):
        self.seen.extend(None if t is None else bits(t).clone() for t in tensors)

    def note_gradients(self, number):
        self.note(*(p.grad for p in self.trained()), self.inputs[number].grad)

    def input(self, number):
        x = torch.randn(ROWS, WIDTH, device=self.device)
        return x.requires_grad_(number % 3 != 0)

    def forward(self, number, fraction):
        self.inputs[number] = self.input(number)
        loss = self.call(self.inputs[number]).square().mean()
        self.losses[number] = loss
        self.note(loss.detach())

    def evaluate(self, number, fraction):
        with torch.no_grad() if fraction < 0.5 else torch.inference_mode():
            self.note(self.call(self.input(number)))

    def fail_forward(self, number, fraction):
        self.mood.failing = self.layers[int(fraction * len(self.layers))]
        try:
            self.call(self.input(number))
        except Boom as error:
            self.seen.append(str(error))
        finally:
            self.mood.failing = None

    def backward(self, number, fraction):
        if self.losses[number].requires_grad:
            self.losses[number].backward()
        self.forget(number)

    def again(self, number, fraction):
        if self.losses[number].requires_grad:
            self.losses[number].backward(retain_graph=True)
        self.note_gradients(number)

    def fail_backward(self, number, fraction):
        self.mood.armed = True
        try:
            if self.losses[number].requires_grad:
                self.losses[number].backward()
        except Boom as error:
            self.seen.append(str(error))
        finally:
            self.mood.armed = False
        self.forget(number)

    def differentiate(self, number, fraction, retain):
        wanted = self.trained()
        first = int(fraction * len(wanted))
        some = wanted[first : first + 2]
        if self.losses[number].requires_grad:
            grads = torch.autograd.grad(
                self.losses[number], some, retain_graph=retain, allow_unused=True
            )
            self.note(*grads)

    def part(self, number, fraction):
        self.differentiate(number, fraction, False)
        self.forget(number)

    def part_first(self, number, fraction):
        self.differentiate(number, fraction, True)

    def second_order(self, number, fraction):
        loss = self.losses[number]
        if loss.requires_grad:
            grads = torch.autograd.grad(loss, self.trained(), create_graph=True, allow_unused=True)
            grads = [g for g in grads if g is not None and g.requires_grad]
            if grads:
                sum(g.square().sum() for g in grads).backward()
            del grads
        del loss
        self.forget(number)

    def drop(self, number, fraction):
        self.forget(number)

    def forget(self, number):
        self.note_gradients(number)
        del self.losses[number], self.inputs[number]

    def step(self, number, fraction):
        with torch.no_grad():
            for p in self.trained():
                if p.grad is not None:
                    p.sub_(p.grad, alpha=0.01)
                    p.grad = None

    def describe(self):
        """The regions and events, to read when a program fails."""
        return "\n".join([*self.chain.describe(), *(f"  {kind} {n}" for kind, n, _ in self.events)])
