"""Small networks that train alike on two devices."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel


class Block(nn.Module):
    """One pre-norm transformer layer with dropout."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2) for t in self.qkv(self.norm_attention(x)).chunk(3, -1))
        with sdpa_kernel(SDPBackend.MATH):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_mlp(x))


class Transformer(nn.Module):
    def __init__(self, layers=2, width=32, words=50):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    @staticmethod
    def data():
        return torch.randint(0, 50, (4, 16)), torch.randint(0, 50, (4, 16))


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, stride=2, groups=2), nn.ReLU(), nn.ConvTranspose2d(16, 4, 2),
            nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.2),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.features(x))

    @staticmethod
    def data():
        return torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))


class Recurrent(nn.Module):
    """An Elman cell below an LSTM written out, unrolled over time.

    Not nn.LSTM: for a device torch takes fused cells, on the CPU others (docs/emulator.md).
    """

    def __init__(self, inputs=12, width=16):
        super().__init__()
        self.below = nn.RNNCell(inputs, width)
        self.gates = nn.Linear(2 * width, 4 * width)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        first = hidden = cell = x.new_zeros(x.shape[0], self.head.in_features)
        for step in x.unbind(1):
            first = self.below(step, first)
            keep, take, fresh, show = self.gates(torch.cat([first, hidden], 1)).chunk(4, 1)
            cell = keep.sigmoid() * cell + take.sigmoid() * fresh.tanh()
            hidden = show.sigmoid() * cell.tanh()
        return self.head(hidden)

    @staticmethod
    def data():
        return torch.randn(4, 7, 12), torch.randint(0, 5, (4,))


def train(kind, device, optimizer=torch.optim.AdamW, steps=4, seed=0):
    """Losses, final state and gradients (on the CPU) of some steps from the same start."""
    torch.manual_seed(seed)
    model = kind()
    x, target = kind.data()
    model, x, target = model.to(device), x.to(device), target.to(device)
    steps_of = optimizer(model.parameters(), lr=1e-2)
    torch.manual_seed(seed + 1)
    losses = []
    for _ in range(steps):
        steps_of.zero_grad()
        loss = functional.cross_entropy(model(x).flatten(0, -2), target.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps_of.step()
        losses.append(loss.item())
    tensors = list(model.state_dict().values()) + [p.grad for p in model.parameters()]
    return losses, [t.detach().cpu() for t in tensors]
