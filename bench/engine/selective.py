"""Selective recompute: what a kept transformer block reruns, and what each operator costs the host.

Virtual: on the emulator's virtual clock, a model of transformer blocks whose checkpoints keep
attention and matrix products. What its step takes more than the plain one, against the time of the
operators that are rerun: those that a dispatch mode sees in the reruns, at the costs given to the
clock.

Host: (checkpointed - plain) / operators of chains of small operators, on the real clock, every
contender in turn, median of the rounds. Torch's own selective checkpoint is given the same list and
the same policy.
"""

from __future__ import annotations

import argparse
import collections
import functools
import time
from collections.abc import Callable
from typing import Any

import torch
from common import answer, arguments, costs, median, require, same
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint as torch_checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

import restow.emulator as emu
import restow.torch as rt

ATEN = torch.ops.aten
Step = Callable[[nn.Module, torch.Tensor], torch.Tensor]
Contender = Callable[[Callable[[torch.Tensor], torch.Tensor], torch.Tensor], torch.Tensor]

# --- virtual clock ---

KEEP = ["attention", "matmul"]
KEPT = (
    ATEN.mm.default,
    ATEN.addmm.default,
    ATEN.bmm.default,
    ATEN._scaled_dot_product_fused_attention_overrideable.default,
    ATEN._scaled_dot_product_flash_attention_for_cpu.default,
)
MATMUL_S, OTHER_S = 1e-3, 1e-4


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        parts = self.qkv(self.norms[0](x)).chunk(3, -1)
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        y: torch.Tensor = self.down(functional.gelu(self.up(self.norms[1](x))))
        return x + y


class Model:
    """Blocks on the emulator, and an input."""

    def __init__(self, blocks: int, width: int) -> None:
        torch.manual_seed(0)
        self.blocks = [Block(width, 4).to("emu") for _ in range(blocks)]
        self.x = torch.randn(2, 16, width).to("emu").requires_grad_()
        self.weight = torch.ones(2, 16, width).to("emu")

    def last_step(self, run: Step) -> float:
        """Virtual seconds of the second of two steps: the first sets up what lasts."""
        self.step(run)
        return self.step(run)

    def step(self, run: Step) -> float:
        """Virtual seconds."""
        for block in self.blocks:
            block.zero_grad()
        self.x.grad = None
        torch.accelerator.synchronize()
        emu.restart_clock()
        y = self.x
        for block in self.blocks:
            y = run(block, y)
        y.backward(self.weight)  # type: ignore[no-untyped-call]
        torch.accelerator.synchronize()
        return emu.now()

    def gradients(self) -> list[torch.Tensor]:
        wanted = [self.x, *(p for block in self.blocks for p in block.parameters())]
        return [p.grad.cpu() for p in wanted if p.grad is not None]


class Noted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what is really run, below autograd, and keeps what the reruns ran."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.first: collections.Counter[Any] = collections.Counter()
        self.again: list[tuple[Any, Any, Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if rt.is_recomputing():
            self.again.append((func, args, kwargs or {}))
        else:
            self.first[func] += 1
        return func(*args, **(kwargs or {}))


def operator_name(op: Any) -> str:
    """As the emulator's table of costs has it."""
    return str(op.name()).removeprefix("aten::")


def alone_s(calls: list[tuple[Any, Any, Any]]) -> float:
    """Virtual seconds of operators by themselves."""
    torch.accelerator.synchronize()
    emu.restart_clock()
    with torch.no_grad():
        for func, args, kwargs in calls:
            func(*args, **kwargs)
    torch.accelerator.synchronize()
    return emu.now()


def virtual(blocks: int, width: int) -> dict[str, Any]:
    emu.reset()
    costs: dict[str, float | str] = {"*": OTHER_S}
    costs.update({operator_name(op): MATMUL_S for op in KEPT})
    emu.configure(op_cost=costs)
    model = Model(blocks, width)
    kept = functools.partial(rt.checkpoint, policy_fn=KEEP)
    plain_s = model.last_step(lambda block, x: block(x))
    wanted = model.gradients()
    step_s = model.last_step(lambda block, x: kept(block, x))
    require(same(wanted, model.gradients()), "gradients of kept blocks differ")
    noted, plain = Noted(), Noted()
    with noted:
        model.step(lambda block, x: kept(block, x))
    with plain:
        model.step(lambda block, x: block(x))
    rerun_s = alone_s(noted.again)
    require(rerun_s > 0, "nothing was rerun")
    require(not emu.races(), "races")
    kept_again = sum(func in KEPT for func, _, _ in noted.again)
    extra = sum(noted.first[op] - plain.first[op] for op in KEPT)
    full_s = model.last_step(lambda block, x: rt.checkpoint(block, x))
    return {
        "plain_s": plain_s,
        "step_s": step_s,
        "rerun_s": rerun_s,
        "ratio": (step_s - plain_s) / rerun_s,
        "full_s": full_s,
        "kept_runs_more": kept_again + extra,
        "kept_runs": sum(plain.first[op] for op in KEPT),
    }


# --- host ---

SAVED = ATEN.sigmoid.default


def chain(operators: int, x: torch.Tensor) -> torch.Tensor:
    """Every other operator is one that is kept."""
    for _ in range(operators // 2):
        x = x.sigmoid().sin()
    return x


def policy(theirs: Any) -> Callable[..., Any]:
    """The same question and answer; each library's own names for the answers."""

    def choose(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return theirs.MUST_SAVE if op is SAVED else theirs.PREFER_RECOMPUTE

    return choose


def plain_run(fn: Any, x: torch.Tensor) -> torch.Tensor:
    return fn(x)  # type: ignore[no-any-return]


def restows(chosen: Any) -> Contender:
    return lambda fn, x: rt.checkpoint(fn, x, policy_fn=chosen)


def torchs(chosen: Any) -> Contender:
    make = functools.partial(torch_checkpoint.create_selective_checkpoint_contexts, chosen)

    def run(fn: Any, x: torch.Tensor) -> torch.Tensor:
        return torch_checkpoint.checkpoint(  # type: ignore[no-any-return]
            fn, x, use_reentrant=False, context_fn=make
        )

    return run


CONTENDERS: dict[str, Contender] = {
    "none": plain_run,
    "restow list": restows([SAVED]),
    "restow policy": restows(policy(rt.CheckpointPolicy)),
    "torch list": torchs([SAVED]),
    "torch policy": torchs(policy(torch_checkpoint.CheckpointPolicy)),
}


def seconds(run: Contender, operators: int, device: str) -> tuple[float, torch.Tensor]:
    """Of one forward and backward; the gradient."""
    x = torch.linspace(-1, 1, 64).to(device).requires_grad_()
    torch.accelerator.synchronize()
    begun = time.perf_counter()
    run(functools.partial(chain, operators), x).sum().backward()  # type: ignore[no-untyped-call]
    torch.accelerator.synchronize()
    took = time.perf_counter() - begun
    assert x.grad is not None
    return took, x.grad.cpu()


def host(device: str, operators: int, rounds: int) -> dict[str, Any]:
    _, expected = seconds(plain_run, operators, device)
    for name, run in CONTENDERS.items():
        for _ in range(2):
            _, gradient = seconds(run, operators, device)
            require(same([expected], [gradient]), f"the gradient under {name} differs")
    others = [name for name in CONTENDERS if name != "none"]
    plain_s, more_s = costs(
        lambda name: seconds(CONTENDERS[name], operators, device)[0], others, rounds
    )
    us = 1e6 / operators
    return {
        "operators": operators,
        "rounds": rounds,
        "plain_us": us * plain_s,
        "us_per_operator": {name: us * median(more) for name, more in more_s.items()},
    }


def define(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operators", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=15)


if __name__ == "__main__":
    options = arguments(define)
    torch.set_num_threads(1)
    figures = {"virtual": virtual(2, 32) if options.small else virtual(8, 64)}
    emu.reset()
    emu.configure(clock="real", schedule="early", h2d=1e18, d2h=1e18)
    small = options.small
    count, rounds = (100, 2) if small else (options.operators, options.rounds)
    figures["host"] = {device: host(device, count, rounds) for device in ("cpu", "emu")}
    answer(figures)
