"""Networks train on emu as on the CPU, to the last bit."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from models import Convolutional, Recurrent, Transformer, train
from torch import nn

import restow.emulator as emu

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = [Transformer, Convolutional, Recurrent]
OPTIMIZERS = [torch.optim.SGD, torch.optim.AdamW]


def assert_same(a, b):
    assert a[0] == b[0]
    assert len(a[1]) == len(b[1]) > 0
    for i, (x, y) in enumerate(zip(a[1], b[1])):
        assert torch.equal(x, y), f"tensor {i} differs by up to {(x - y).abs().max()}"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_trains_bit_equal_to_the_cpu(kind, optimizer):
    assert_same(train(kind, "cpu", optimizer), train(kind, "emu", optimizer))


@pytest.mark.parametrize("schedule", ["early", "random", "threads"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_schedule_makes_no_difference(kind, schedule):
    emu.configure(schedule=schedule, seed=3)
    assert_same(train(kind, "cpu"), train(kind, "emu:1"))


@pytest.mark.parametrize("personality", ["one_stream", "opaque"])
@pytest.mark.parametrize("kind", KINDS)
def test_personalities_make_no_difference(kind, personality):
    emu.configure(**{personality: True})
    assert_same(train(kind, "cpu"), train(kind, "emu"))


def test_training_without_pinned_memory_works():
    emu.configure(pinned=False)
    assert_same(train(Transformer, "cpu"), train(Transformer, "emu"))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_fused_cells_compute_the_cpus_formulas(kind):
    def run(device):
        torch.manual_seed(0)
        layer = kind(6, 8, num_layers=2, batch_first=True).double().to(device)
        x = torch.randn(3, 5, 6, dtype=torch.double).to(device)
        layer(x)[0].square().sum().backward()
        return [p.grad.cpu() for p in layer.parameters()]

    # Rounding differs: the CPU adds biases inside its products. 1e-12 is some thousand ulps of 1.
    for a, b in zip(run("cpu"), run("emu")):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_training_leaves_no_device_memory_behind():
    before = emu.memory_allocated()
    train(Transformer, "emu")
    assert emu.memory_allocated() == before


def test_the_snippet_of_the_readme_trains():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r'\./run python -c "\n(import restow\.emulator as emu.*?)\n"\n', text, re.S)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[0].stderr == ""
    loss, clock, races = re.fullmatch(
        r"loss ([\d.]+), ([\d.]+) ms on the virtual clock, races: (.*)\n", runs[0].stdout
    ).groups()
    assert float(loss) < 1 and races == "[]"
    assert f" {clock} ms " in runs[1].stdout, "the clock repeats, whatever numbers were drawn"
