"""A llama-like model trains to the same losses plain, swapped, recomputed, and with both."""

import functools

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from models import bits, must_swap

import restow.mindspore as rm

LAYERS, WIDTH, HEADS, INNER, LENGTH, VOCABULARY, STEPS = 12, 32, 4, 64, 16, 50, 20


class RMSNorm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(ops.ones(WIDTH), name="weight")

    def construct(self, x):
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + 1e-6) * self.weight


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Dense(WIDTH, 3 * WIDTH, has_bias=False)
        self.out = nn.Dense(WIDTH, WIDTH, has_bias=False)
        self.drop = nn.Dropout(p=0.1)
        half = WIDTH // HEADS // 2
        angles = np.outer(np.arange(LENGTH), 100.0 ** -(np.arange(half) / half))
        self.cos = Tensor(np.cos(angles).astype(np.float32))
        self.sin = Tensor(np.sin(angles).astype(np.float32))
        self.mask = Tensor(np.triu(np.full((LENGTH, LENGTH), -1e4, np.float32), 1))

    def rotate(self, x):
        left, right = ops.chunk(x, 2, -1)
        return ops.concat(
            [left * self.cos - right * self.sin, left * self.sin + right * self.cos], -1
        )

    def construct(self, x):
        batch = x.shape[0]

        def heads(t):
            return t.reshape(batch, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

        q, k, v = (heads(t) for t in ops.chunk(self.qkv(x), 3, -1))
        scores = ops.matmul(self.rotate(q), self.rotate(k).transpose(0, 1, 3, 2))
        weights = self.drop(ops.softmax(scores / (WIDTH // HEADS) ** 0.5 + self.mask, -1))
        mixed = ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(batch, LENGTH, WIDTH)
        return self.out(mixed)


class Layer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(), RMSNorm()
        self.attention = Attention()
        self.gate = nn.Dense(WIDTH, INNER, has_bias=False)
        self.up = nn.Dense(WIDTH, INNER, has_bias=False)
        self.down = nn.Dense(INNER, WIDTH, has_bias=False)
        self.drop = nn.Dropout(p=0.1)

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.drop(self.down(ops.silu(self.gate(y)) * self.up(y)))


class Llama(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.CellList([Layer() for _ in range(LAYERS)])
        self.norm = RMSNorm()
        self.head = nn.Dense(WIDTH, VOCABULARY, has_bias=False)

    def construct(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


WAYS = {
    "swap": lambda layer: rm.swap_wrapper(layer, must_swap),
    "recompute": rm.checkpoint_wrapper,
    "both": functools.partial(rm.checkpoint_wrapper, swap_inputs=True),
}


def losses(wrap):
    ms.set_seed(11)
    whole = Llama().set_train()
    if wrap is not None:
        for index in range(LAYERS):
            whole.layers[index] = wrap(whole.layers[index])
    optimizer = nn.AdamWeightDecay(whole.trainable_params(), 1e-3)

    def fn(tokens, labels):
        return ops.cross_entropy(whole(tokens).reshape(-1, VOCABULARY), labels.reshape(-1))

    step = ms.value_and_grad(fn, None, optimizer.parameters)
    draw = np.random.RandomState(5)
    seen = []
    for _ in range(STEPS):
        text = draw.randint(0, VOCABULARY, (2, LENGTH + 1))
        loss, grads = step(Tensor(text[:, :-1], ms.int32), Tensor(text[:, 1:], ms.int32))
        optimizer(grads)
        seen.append(bits(loss))
    return seen


@pytest.fixture(scope="module")
def plain():
    return losses(None)


@pytest.mark.parametrize("name", list(WAYS))
def test_twenty_steps_have_the_same_losses(name, plain):
    assert len(set(plain)) == STEPS
    rm.reset_stats()
    assert losses(WAYS[name]) == plain
    assert (rm.stats().bytes_out > 0) == (name != "recompute")
    assert (rm.stats().recomputed_regions > 0) == (name != "swap")
