"""A model for the tests of wrappers, and what every one of them starts from and leaves behind."""

import functools
import gc

import pytest
import torch
from helpers import must_swap
from torch import nn

import restow.torch as rt
from restow.torch import _overlap


class Block(nn.Module):
    """Parameters and a buffer of its own, children, a property, a method, plain attributes."""

    version = "class attribute"

    def __init__(self, width=4):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.fc1 = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.fc2 = nn.Linear(width, width, bias=False)
        self.register_buffer("shift", torch.full((width,), 0.5))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.note = "plain"

    @property
    def width(self):
        return self.fc1.in_features

    def doubled(self, x):
        return 2 * x

    def forward(self, x, *, extra=0.0):
        return x + self.fc2(torch.relu(self.norm(self.fc1(x * self.gain)))) + self.shift + extra


class Model(nn.Module):
    """Blocks in a list and a head whose weight the first layer shares."""

    def __init__(self, layers=3, width=4):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, width)
        self.head.weight = self.first.weight

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Around(nn.Module):
    """Work before and after a wrapped child."""

    def __init__(self, child):
        super().__init__()
        self.child = child

    def forward(self, x):
        x = torch.sin(x) * self.child.gain
        x = self.child(x)
        return torch.cos(x)


class Callable:
    """A callable with a state of its own, which cannot be weakly referenced."""

    __slots__ = ("factor",)

    def __init__(self, factor=2.0):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


class PassThrough(rt.ActivationWrapper):
    """A user's own wrapper: no region at all."""

    calls: int

    def __init__(self, module):
        super().__init__(module)
        self.calls = 0

    def forward(self, *args, **kwargs):
        self.calls += 1
        return self._ckpt_wrapped_module(*args, **kwargs)


WRAPS = {
    "swap": rt.swap_wrapper,
    "checkpoint": rt.checkpoint_wrapper,
    "swap_and_checkpoint": functools.partial(rt.checkpoint_wrapper, swap_inputs=True),
    "exclude": rt.checkpoint_exclude_wrapper,
    "own": PassThrough,
}
# Those that make a region.
REGIONS = ("swap", "checkpoint", "swap_and_checkpoint", "own")


@pytest.fixture(params=list(WRAPS))
def wrap(request):
    return WRAPS[request.param]


@pytest.fixture(autouse=True)
def table_is_left_as_it_was():
    """Whatever a test wraps is forgotten when the test is over."""
    before = {id(entry): entry for entry in _overlap._overlaps._table.values()}

    def new():
        return [entry for entry in _overlap._overlaps._table.values() if id(entry) not in before]

    yield
    # A collection takes long where much is imported, and most tests leave nothing to it.
    if new():
        gc.collect()
    assert new() == []


def model(layers=3):
    torch.manual_seed(0)
    return Model(layers)


def block():
    torch.manual_seed(0)
    return Block()


def wrap_layers(whole, wrap):
    """Every layer wrapped in place."""
    for index, layer in enumerate(whole.layers):
        whole.layers[index] = wrap(layer)
    return whole


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


def train(whole, device, steps=3, micro_batches=2):
    """Losses, parameters and gradients of some steps."""
    whole = whole.to(device)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        torch.manual_seed(step)
        batches = [torch.randn(5, 4).to(device) for _ in range(micro_batches)]
        losses = [whole(batch).square().mean() for batch in batches]
        for loss in reversed(losses):
            loss.backward()
            seen.append(loss.detach().cpu())
        seen += [p.grad.detach().cpu().clone() for p in whole.parameters()]
        optimizer.step()
    seen += [p.detach().cpu().clone() for p in whole.parameters()]
    return seen


def swap_all(module):
    return rt.swap_wrapper(module, must_swap)


def mixed(whole):
    whole.layers[0] = swap_all(whole.layers[0])
    whole.layers[1] = rt.checkpoint_wrapper(whole.layers[1], swap_inputs=True)
    whole.layers[2].fc1 = rt.checkpoint_wrapper(whole.layers[2].fc1)
    return whole
