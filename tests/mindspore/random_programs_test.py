"""Random programs leave the gradients of plain MindSpore, and no slot, file or byte.

RESTOW_MINDSPORE_PROGRAMS and RESTOW_MINDSPORE_SEED choose how many and from which seed on; a failure
names its seed, and ``RESTOW_MINDSPORE_PROGRAMS=1 RESTOW_MINDSPORE_SEED=<it>`` runs that one alone.
"""

import gc
import os
import random
import traceback

import mindspore as ms
from conftest import leftovers, settle
from mindspore import Parameter, nn, ops
from models import PassThrough, bits, must_save, must_swap, recover, tensor

import restow.mindspore as rm

PROGRAMS = int(os.environ.get("RESTOW_MINDSPORE_PROGRAMS", "30"))
SEED = int(os.environ.get("RESTOW_MINDSPORE_SEED", "1"))
ROWS, WIDTH = 3, 8


def linear(x, w):
    return ops.matmul(x, w.square) + w.bias


def normed(x, w):
    return (x - x.mean(-1, keep_dims=True)) * ops.rsqrt((x * x).mean(-1, keep_dims=True) + 1) * w.bias


def gated(x, w):
    left, right = ops.chunk(ops.concat([x, x * w.bias], -1), 2, -1)
    return ops.sigmoid(left) * right


def transposed(x, w):
    return ops.tanh(ops.matmul(w.square, x.t()).t())


def dropped(x, w):
    return ops.dropout(x * w.bias, 0.25)


def masked(x, w):
    return ops.where(x > 0, x * ops.sigmoid(x), ops.abs(x))


def softmaxed(x, w):
    return ops.softmax(ops.tanh(x), -1) * x * w.frozen


def expanded(x, w):
    return ops.broadcast_to(x[:, :1], (ROWS, WIDTH)) * ops.sin(x)


def smooth(x, w):
    return (ops.gelu(x) + x) * 0.5


OPERATORS = [linear, normed, gated, transposed, dropped, masked, softmaxed, expanded, smooth]


class Boom(Exception):
    pass


class Mood:
    """Which layer is to fail now, and in which call."""

    failing = None
    in_rerun = False


class Layer(nn.Cell):
    """One to three operators in a row."""

    def __init__(self, draw, mood):
        super().__init__()
        self.chosen = [draw.choice(OPERATORS) for _ in range(draw.randint(1, 3))]
        self.__dict__["mood"] = mood
        seed = draw.randrange(1 << 30)
        self.square = Parameter(tensor(WIDTH, WIDTH, seed=seed) / 3, name="square")
        self.bias = Parameter(tensor(WIDTH, seed=seed + 1) / 3 + 1, name="bias")
        self.frozen = Parameter(tensor(WIDTH, seed=seed + 2), name="frozen", requires_grad=False)

    def construct(self, x):
        for operator in self.chosen:
            # Not towards 0: whether MindSpore flushes subnormal numbers depends on the thread, so that
            # two plain runs differ in them.
            x = operator(x, self) + self.bias
        mood = self.mood
        if mood.failing is self and mood.in_rerun == rm.is_recomputing():
            raise Boom("as drawn")
        return x


def mixed_policy():
    turn = iter(range(1 << 30))
    return lambda t: (must_swap, must_save)[next(turn) % 2](t)


WRAPS = [
    lambda cell: rm.swap_wrapper(cell, must_swap),
    lambda cell: rm.swap_wrapper(cell, mixed_policy()),
    rm.swap_wrapper,
    lambda cell: rm.swap_wrapper(cell, None, True),
    rm.checkpoint_wrapper,
    lambda cell: rm.checkpoint_wrapper(cell, swap_inputs=True),
    lambda cell: rm.checkpoint_wrapper(cell, early_stop=False, determinism_check="values"),
    rm.checkpoint_exclude_wrapper,
    PassThrough,
]
FUNCTIONS = [rm.checkpoint, rm.swap, lambda fn, x: rm.checkpoint(fn, x, swap_inputs=True), None]


class Program:
    """A stack of layers, and steps of several micro-batches of which some fail."""

    def __init__(self, seed, woven):
        draw = random.Random(seed)
        ms.set_seed(seed + 1)
        self.mood = Mood()
        self.layers = [Layer(draw, self.mood) for _ in range(draw.randint(1, 5))]
        for index, layer in enumerate(self.layers):
            layer.update_parameters_name(f"{index}.")
        self.weights = [p for layer in self.layers for p in layer.trainable_params()]
        ways = [draw.choice([*WRAPS, None]) for _ in self.layers]
        groups = [draw.choice(FUNCTIONS) for _ in range(2)]
        self.fails = [draw.random() < 0.25 for _ in range(2)]
        self.victims = [(draw.choice(self.layers), draw.random() < 0.3) for _ in range(2)]
        self.batches = draw.randint(1, 3)
        self.cells = [
            way(layer) if woven and way is not None else layer
            for layer, way in zip(self.layers, ways, strict=True)
        ]
        self.groups = groups if woven else [None, None]

    def part(self, cells, x):
        for cell in cells:
            x = cell(x)
        return x

    def forward(self, *inputs):
        total = 0
        for x in inputs:
            middle = len(self.cells) // 2
            for way, cells in zip(
                self.groups, (self.cells[:middle], self.cells[middle:]), strict=True
            ):
                body = lambda t, cells=cells: self.part(cells, t)  # noqa: E731
                x = body(x) if way is None else way(body, x)
            total = total + (x * x).mean()
        return total

    def run(self):
        """What a user sees: losses and gradients of two steps, and of an inference pass."""
        seen = []
        step = ms.value_and_grad(self.forward, tuple(range(self.batches)), self.weights)
        for index in range(2):
            if self.fails[index]:
                self.mood.failing, self.mood.in_rerun = self.victims[index]
                self.fail(step, index)
                self.mood.failing = None
            inputs = [tensor(ROWS, WIDTH, seed=10 * index + i) for i in range(self.batches)]
            ms.set_seed(index)
            loss, (by_input, by_weight) = step(*inputs)
            seen += [bits(loss), bits(by_input), bits(by_weight)]
        ms.set_seed(9)
        seen.append(bits(self.forward(tensor(ROWS, WIDTH))))
        return seen

    def fail(self, step, index):
        """A failure is not part of what is compared: a rerun exists only where one is woven in."""
        try:
            step(*[tensor(ROWS, WIDTH, seed=index) for _ in range(self.batches)])
        except Boom:
            recover()


def check(seed):
    """Runs the program of a seed twice; what is wrong, or None."""
    wrong = None
    try:
        if Program(seed, woven=False).run() != Program(seed, woven=True).run():
            wrong = "what it computes differs"
    except Exception:
        wrong = traceback.format_exc()
        recover()
    gc.collect()
    settle()
    left = {name: count for name, count in leftovers().items() if count}
    if wrong is None and left:
        wrong = f"{left} are left"
    return None if wrong is None else f"seed {seed}: {wrong}"


def test_random_programs():
    print(f"{PROGRAMS} programs from seed {SEED}")
    gc.collect()
    gc.freeze()
    failures = []
    for seed in range(SEED, SEED + PROGRAMS):
        wrong = check(seed)
        if wrong is not None:
            failures.append(wrong)
            if len(failures) >= 5:
                break
    assert not failures, "\n".join(failures)
    moved, recomputed = rm.stats().bytes_out, rm.stats().recomputed_regions
    assert PROGRAMS < 20 or (moved > 0 and recomputed > 0), "programs that move nothing prove nothing"
