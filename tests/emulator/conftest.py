"""Every test starts from the emulator's defaults and ends without races it did not expect."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import restow.emulator as emu  # noqa: E402

# Small tensors gain nothing from more, and other tests run beside these.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fresh_emulator():
    emu.reset()
    yield
    found = emu.races()
    emu.reset()
    assert found == [], "unexpected races; a test of a bug takes them with clear_races()"
