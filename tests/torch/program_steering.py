"""Groups that the random programs steer by hand, against a model of what is allowed."""

import itertools
import random

import torch
from helpers import WAYS, message_of, must_swap
from program_policies import draw_selective

import restow
import restow.torch as rt

NAMES = ("programs/0", "programs/1", "programs/2")
CALLS = ("launch_offload", "wait_offload", "launch_load", "wait_load")


class Hand:
    """Calls the manager at random: in turn as a rule, out of turn to see that it is refused.

    Now and then it links the layers to a chain, too, whose hooks then steer.
    """

    def __init__(self, seed, layers):
        self.draw = random.Random(f"hand {seed}")
        self.manager = rt.SwapManager()
        if self.draw.random() < 0.2:
            for first, second in itertools.pairwise(layers):
                self.manager.set_forward_prefetch_layer(first, second)
        self.states = {}  # by group: its state, and how many offloads were not loaded since

    def allowed(self, name):
        state, away = self.states[name]
        if state == "idle":
            return ["launch_offload", "launch_load"] if away else ["launch_offload"]
        return ["wait_offload"] if state == "offloading" else ["wait_load"]

    def steer(self):
        """Some calls, between two events of the program."""
        for name in NAMES:
            if name not in self.states:
                self.manager.ensure_group(name)
                self.states[name] = ("idle", 0)
        for _ in range(self.draw.randint(0, 4)):
            name = self.draw.choice(sorted(self.states))
            kind = self.draw.random()
            if kind < 0.8:
                self.in_turn(name)
            elif kind < 0.9:
                self.out_of_turn(name)
            elif kind < 0.96:
                self.manager.release_group_storage(name)
                self.states[name] = ("idle", 0)
            else:
                self.manager.abort_group(name)
                del self.states[name]
                return

    def in_turn(self, name):
        call = self.draw.choice(self.allowed(name))
        getattr(self.manager, call)(name)
        _, away = self.states[name]
        self.states[name] = {
            "launch_offload": ("offloading", away),
            "wait_offload": ("idle", away + 1),
            "launch_load": ("loading", away),
            "wait_load": ("idle", away - 1),
        }[call]

    def out_of_turn(self, name):
        allowed = self.allowed(name)
        call = self.draw.choice([call for call in CALLS if call not in allowed])
        message = message_of(restow.Error, getattr(self.manager, call), name)
        assert message.endswith("allowed now: " + " or ".join(allowed)), message

    def let_go(self):
        self.manager.reset()
        self.states = {}


def draw_steered(draw):
    """A way to run a function in a group that the hand steers."""
    name = draw.choice(NAMES)
    marks = draw.random() < 0.3
    inner = draw.choice(
        [WAYS["swap"], WAYS["checkpoint_swapped"], WAYS["swap_of_checkpoint"], draw_selective(draw)]
    )
    fused = draw.random() < 0.3

    def marked(fn, x):
        y = fn(x)
        if torch.is_grad_enabled():
            rt.SwapManager().add_storage(name, [y])
        return y

    def way(fn, x):
        with rt.SwapManager().group_context(name):
            if marks:
                return marked(fn, x)
            if fused:
                return rt.swap(fn, x, policy_fn=must_swap, group_swap=True)
            return inner(fn, x)

    way.__name__ = f"steered in {name}{', marks' * marks}{', fused' * fused} ({inner.__name__})"
    return way
