"""Random correct programs on torch tensors: their values come out, and no race is reported.

RESTOW_EMULATOR_PROGRAMS and RESTOW_EMULATOR_SEED choose how many and which; a failure names its seed.
The same at the level below torch, with an oracle and with wrong programs too, is programs_test.cc.
"""

import os
import random

import pytest
import torch

import restow.emulator as emu

PROGRAMS = int(os.environ.get("RESTOW_EMULATOR_PROGRAMS", "60"))
SEED = int(os.environ.get("RESTOW_EMULATOR_SEED", "1"))
STREAMS = 3
STEPS = 40


class Program:
    """Tensors on emu and pinned ones, with a CPU copy of what each must hold.

    A tensor remembers the event of its last write and those of the reads since; whoever touches it
    waits for what it must, on the stream or on the host.
    """

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.streams = [torch.accelerator.current_stream()]
        self.streams += [torch.Stream(device="emu") for _ in range(STREAMS - 1)]
        self.slots = [self.new(host=i >= 3) for i in range(6)]

    def new(self, host):
        value = torch.full((4, 8), float(self.draw.randrange(100)))
        if host:
            return {"tensor": value.pin_memory(), "value": value, "write": None, "reads": []}
        stream = self.draw.choice(self.streams)
        with stream:
            tensor = torch.full((4, 8), value[0, 0].item(), device="emu")
            event = stream.record_event()
        return {"tensor": tensor, "value": value, "write": event, "reads": [], "home": stream}

    def order(self, slot, stream, write):
        """Waits for what an access must come after; `stream` None is the host."""
        events = [slot["write"]] + (slot["reads"] if write else [])
        for event in filter(None, events):
            if stream is None or self.draw.random() < 0.2:
                event.synchronize()
            else:
                stream.wait_event(event)

    def note(self, slot, stream, write):
        event = stream.record_event()
        if write:
            slot["write"], slot["reads"] = event, []
        else:
            slot["reads"].append(event)

    def operate(self):
        a, b = (self.draw.choice(self.slots[:3]) for _ in range(2))
        stream = self.draw.choice(self.streams)
        self.order(a, stream, False)
        self.order(b, stream, True)
        with stream:
            b["tensor"].copy_(a["tensor"].flip(1) * 0.5 + 1)
        b["value"] = a["value"].flip(1) * 0.5 + 1
        self.note(a, stream, False)
        self.note(b, stream, True)

    def move(self):
        pair = [self.draw.choice(self.slots[:3]), self.draw.choice(self.slots[3:])]
        self.draw.shuffle(pair)
        source, target = pair
        stream = self.draw.choice(self.streams)
        self.order(source, stream, False)
        self.order(target, stream, True)
        with stream:
            target["tensor"].copy_(source["tensor"], non_blocking=True)
        target["value"] = source["value"].clone()
        self.note(source, stream, False)
        self.note(target, stream, True)

    def touch(self):
        slot = self.draw.choice(self.slots[3:])
        write = self.draw.random() < 0.5
        self.order(slot, None, write)
        if write:
            slot["tensor"].fill_(5)
            slot["value"] = torch.full((4, 8), 5.0)
        else:
            assert torch.equal(slot["tensor"] + 0, slot["value"])

    def renew(self):
        index = self.draw.randrange(6)
        slot = self.slots[index]
        if index < 3:
            self.order(slot, slot["home"], True)
        else:
            self.order(slot, None, True)
        self.slots[index] = self.new(host=index >= 3)

    def run(self):
        for _ in range(STEPS):
            self.draw.choice([self.operate, self.operate, self.move, self.move, self.touch, self.renew])()
        torch.accelerator.synchronize()
        for slot in self.slots:
            assert torch.equal(slot["tensor"].cpu(), slot["value"])


@pytest.mark.parametrize("schedule", ["early", "late", "random", "threads"])
def test_correct_programs_compute_their_values_without_an_alarm(schedule):
    print(f"{PROGRAMS} programs from seed {SEED}")
    emu.configure(schedule=schedule, seed=SEED)
    for seed in range(SEED, SEED + PROGRAMS):
        try:
            Program(seed).run()
            assert emu.races() == []
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
