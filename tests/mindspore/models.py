"""Models for the tests, and training of them that shows every bit."""

import functools

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.graph.api import _pynative_executor

import restow.mindspore as rm


def must_swap(tensor):
    return rm.CheckpointPolicy.MUST_SWAP


def must_save(tensor):
    return rm.CheckpointPolicy.MUST_SAVE


class Block(nn.Cell):
    """Parameters and a buffer of its own, children, a property, a method, plain attributes."""

    version = "class attribute"

    def __init__(self, width=4):
        super().__init__()
        self.gain = Parameter(ops.ones(width), name="gain")
        self.fc1 = nn.Dense(width, width)
        self.norm = nn.LayerNorm((width,))
        self.fc2 = nn.Dense(width, width, has_bias=False)
        self.register_buffer("shift", Tensor(np.full(width, 0.5, np.float32)))
        self.register_buffer("scratch", Tensor(np.zeros(1, np.float32)), persistent=False)
        self.note = "plain"

    @property
    def width(self):
        return self.fc1.in_channels

    def doubled(self, x):
        return 2 * x

    def construct(self, x, *, extra=0.0):
        return x + self.fc2(ops.relu(self.norm(self.fc1(x * self.gain)))) + self.shift + extra


class Model(nn.Cell):
    """Blocks in a list between two layers."""

    def __init__(self, layers=3, width=4):
        super().__init__()
        self.first = nn.Dense(width, width)
        self.layers = nn.CellList([Block(width) for _ in range(layers)])
        self.head = nn.Dense(width, width)

    def construct(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Callable:
    """A callable with a state of its own, which cannot be weakly referenced."""

    __slots__ = ("factor",)

    def __init__(self, factor=2.0):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


class PassThrough(rm.ActivationWrapper):
    """A user's own wrapper: no region at all."""

    calls: int

    def __init__(self, module):
        super().__init__(module)
        self.calls = 0

    def construct(self, *args, **kwargs):
        self.calls += 1
        return self._ckpt_wrapped_module(*args, **kwargs)


WRAPS = {
    "swap": rm.swap_wrapper,
    "checkpoint": rm.checkpoint_wrapper,
    "swap_and_checkpoint": functools.partial(rm.checkpoint_wrapper, swap_inputs=True),
    "exclude": rm.checkpoint_exclude_wrapper,
    "own": PassThrough,
}
# Those that make a region.
REGIONS = ("swap", "checkpoint", "swap_and_checkpoint", "own")


@pytest.fixture(params=list(WRAPS))
def wrap(request):
    return WRAPS[request.param]


def model(layers=3):
    ms.set_seed(0)
    return Model(layers)


def block():
    ms.set_seed(0)
    return Block()


def wrap_layers(whole, wrap):
    """Every layer wrapped in place."""
    for index in range(len(whole.layers)):
        whole.layers[index] = wrap(whole.layers[index])
    return whole


def deeply_wrapped(wrap):
    """A block, two layers of a block, and a block with a wrapper assigned into it later."""
    whole = model()
    whole.layers[0] = wrap(whole.layers[0])
    whole.layers[1].fc1 = wrap(whole.layers[1].fc1)
    whole.layers[1].norm = wrap(whole.layers[1].norm)
    inner = whole.layers[2].fc2
    whole.layers[2] = wrap(whole.layers[2])
    # The overlap is formed later, by assignment; wrapping it now would be refused.
    within = PassThrough(nn.Dense(4, 4, has_bias=False))
    within.weight.set_data(inner.weight.value())
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
    rm.unwrap(whole)


def tensor(*shape, seed=0, dtype=np.float32):
    return Tensor(np.random.RandomState(seed).standard_normal(shape).astype(dtype))


def bits(value):
    """The bytes of a tensor, or of all tensors in a list or tuple."""
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    if not isinstance(value, Tensor):
        return value
    value = value.contiguous()
    return (str(value.dtype), tuple(value.shape), value.asnumpy().tobytes())


def gradients(fn, *inputs, weights=None):
    """Value and gradients of ``fn`` by its inputs and weights, as bytes."""
    positions = tuple(range(len(inputs)))
    return bits(ms.value_and_grad(fn, positions, weights)(*inputs))


def recover():
    """After a failed step, plain MindSpore 2.10 is not ready for the next one (facts_test.py)."""
    _pynative_executor.clear_res()


def train(whole, steps=3, micro_batches=2, rate=0.1):
    """Losses, gradients and parameters of some steps, as bytes.

    A step is one function of several micro-batches, so that their forwards all come before the
    first backward.
    """
    weights = whole.trainable_params()

    def forward(*batches):
        losses = [(whole(batch) ** 2).mean() for batch in batches]
        return sum(losses[1:], losses[0])

    step_fn = ms.value_and_grad(forward, None, weights)
    seen = []
    for step in range(steps):
        ms.set_seed(step)
        batches = [tensor(5, 4, seed=10 * step + i) for i in range(micro_batches)]
        loss, grads = step_fn(*batches)
        seen += [bits(loss), bits(grads)]
        for weight, grad in zip(weights, grads, strict=True):
            weight.set_data(weight.value() - rate * grad)
    return [*seen, bits([w.value() for w in weights])]


def views(x):
    y = ops.tanh(x)
    left, right = y[:, :2], y[:, 2:]
    z = left * right.contiguous() + (y.t() * y.t()).t()[:, 1:3]
    return (z * y.reshape(-1, 2)[::2]).sum() + (y[:1] * y[1:2]).sum()


# What saves tensors of every kind: functions of a 4 x 4 tensor.
BODIES = [
    views,
    lambda x: ops.gelu(x).sum(),
    lambda x: (ops.softmax(x) * x.sum()).sum(),
    lambda x: ops.tanh(x.astype(ms.float16)).astype(ms.float32).sum(),
    lambda x: (x * Tensor(np.ones((4, 4)), ms.bfloat16)).astype(ms.float32).sum(),
    lambda x: ops.where(x > 0, x * x, x).sum(),
    lambda x: (x.sum() * x.max() * x.mean()).sum(),
    lambda x: (ops.broadcast_to(x[:1], (4, 4)) * x).sum(),
]
