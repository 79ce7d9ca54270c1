"""Random programs leave the gradients of plain torch, no race, no slot and no byte.

RESTOW_TORCH_PROGRAMS and RESTOW_TORCH_SEED choose how many and from which seed on; a failure names
its seed, and ``RESTOW_TORCH_PROGRAMS=1 RESTOW_TORCH_SEED=<it>`` runs that one alone. The device,
the schedule and the hook path are drawn from the seed too.
"""

import gc
import os
import random
import time
import traceback

import torch
from helpers import SETTINGS, defaults, eventually, settle
from programs import Program

import restow.emulator as emu
import restow.torch as rt
from restow.torch._load import native

PROGRAMS = int(os.environ.get("RESTOW_TORCH_PROGRAMS", "500"))
SEED = int(os.environ.get("RESTOW_TORCH_SEED", "1"))


def differing(expected, actual):
    """The first place where two accounts differ, or None."""
    if len(expected) != len(actual):
        return f"{len(expected)} observations became {len(actual)}"
    for index, (a, b) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            if not torch.equal(a, b):
                return f"observation {index} differs"
        elif a is not b and a != b:
            return f"observation {index} is {b!r}, not {a!r}"
    return None


def left(before):
    """Units, host bytes and device bytes that the engine or anyone still holds."""
    stats = rt.stats()
    return stats.units, stats.host_used_bytes, emu.memory_allocated() - before


def check(seed):
    """Runs the program of a seed twice; what is wrong, or None."""
    setting = SETTINGS[random.Random(seed).choice(list(SETTINGS))]
    native.use_proxy(setting.hooks == "proxy")
    if setting.schedule:
        emu.configure(schedule=setting.schedule, seed=seed)
    program = Program(seed, setting.device)
    before = emu.memory_allocated()
    wrong = None
    try:
        wrong = differing(program.run(woven=False), program.run(woven=True))
    except Exception:
        wrong = traceback.format_exc()
    settle()
    if wrong is None and emu.races():
        wrong = f"races: {emu.races()[0]}"
    if wrong is None and not eventually(lambda: left(before) == (0, 0, 0), seconds=0.1):
        # What an exception crossed may hang in a cycle of Python's.
        gc.collect()
        settle()
        if not eventually(lambda: left(before) == (0, 0, 0), seconds=1.0):
            wrong = f"{left(before)} units, host bytes, device bytes are left"
    if wrong is not None:
        return f"seed {seed} on {setting}: {wrong}\n{program.describe()}"
    return None


def test_random_programs(file_folder):
    print(f"{PROGRAMS} programs from seed {SEED}")
    emu.reset()
    defaults(file_folder, "proxy")
    rt.reset_stats()
    failures = []
    started = time.perf_counter()
    for seed in range(SEED, SEED + PROGRAMS):
        wrong = check(seed)
        if wrong is not None:
            failures.append(wrong)
            emu.clear_races()
            if len(failures) >= 5:
                break
    spent = time.perf_counter() - started
    print(f"{PROGRAMS / spent:.0f} programs a second")
    moved, recomputed = rt.stats().bytes_out, rt.stats().recomputed_regions
    emu.reset()
    defaults(file_folder, "proxy")
    assert not failures, "\n".join(failures)
    assert PROGRAMS < 20 or (moved > 0 and recomputed > 0), "what moves nothing proves nothing"
