"""What the tests of activation plans carry out: a small model, and the job of the tiny example."""

import torch
from helpers import ROOT
from torch import nn

JOB = ROOT / "examples" / "torch" / "tiny.yaml"
# The bar of a round trip: kept and swapped bytes, predicted against measured.
BAR_PCT = 2.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))

    def forward(self, x):
        return self.blocks(x).square().sum()
