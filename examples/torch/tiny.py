"""A decoder-only transformer as Hugging Face writes them, in plain torch: tiny.yaml's model.

Its layers are called ``model.layers.{i}``, as `restow export` expects, and each keeps for backward
what the planner's ``framework: torch`` prices: norms written out in fp32, attention with its scores
(``attention: unfused``), a gated feed-forward. Sizes are those of tiny.yaml unless stated.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class Sizes:
    layers: int = 6
    hidden: int = 128
    heads: int = 8
    kv_heads: int = 4
    ffn: int = 384
    vocab: int = 512
    sequence: int = 128

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * (wide * scale).to(x.dtype)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [batch, heads, tokens, width]; its factors want no gradient."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def repeated(x: Tensor, times: int) -> Tensor:
    """Each key or value head for the query heads that share it."""
    batch, heads, tokens, width = x.shape
    wide = x[:, :, None].expand(batch, heads, times, tokens, width)
    return wide.reshape(batch, heads * times, tokens, width)


class Attention(nn.Module):
    cos: Tensor
    sin: Tensor
    mask: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        narrow = sizes.kv_heads * sizes.head_dim
        self.q_proj = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.k_proj = nn.Linear(sizes.hidden, narrow, bias=False)
        self.v_proj = nn.Linear(sizes.hidden, narrow, bias=False)
        self.o_proj = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        steps = torch.arange(0, sizes.head_dim, 2, dtype=torch.float32) / sizes.head_dim
        angles = torch.outer(torch.arange(sizes.sequence, dtype=torch.float32), 10000.0**-steps)
        angles = torch.cat((angles, angles), -1)
        ahead = torch.full((sizes.sequence, sizes.sequence), -torch.inf).triu(1)
        # Buffers, which the engine knows never to move, as parameters.
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer("mask", ahead, persistent=False)

    def heads(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        return x.view(batch, tokens, -1, self.sizes.head_dim).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        sizes, (batch, tokens, _) = self.sizes, x.shape
        cos, sin = self.cos[:tokens], self.sin[:tokens]
        query = rotated(self.heads(self.q_proj(x)), cos, sin)
        key = rotated(self.heads(self.k_proj(x)), cos, sin)
        value = self.heads(self.v_proj(x))
        share = sizes.heads // sizes.kv_heads
        key, value = repeated(key, share), repeated(value, share)
        scores = query @ key.transpose(2, 3) * sizes.head_dim**-0.5 + self.mask[:tokens, :tokens]
        weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
        return self.o_proj((weights @ value).transpose(1, 2).reshape(batch, tokens, sizes.hidden))


class FeedForward(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.up_proj = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.down_proj = nn.Linear(sizes.ffn, sizes.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(sizes.hidden)
        self.self_attn = Attention(sizes)
        self.post_attention_layernorm = RMSNorm(sizes.hidden)
        self.mlp = FeedForward(sizes)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocab, sizes.hidden)
        self.layers = nn.ModuleList(DecoderLayer(sizes) for _ in range(sizes.layers))
        self.norm = RMSNorm(sizes.hidden)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed_tokens(words)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class CausalLM(nn.Module):
    """Words in, the mean cross entropy of the next word out."""

    def __init__(self, sizes: Sizes = Sizes()) -> None:
        super().__init__()
        self.model = Decoder(sizes)
        self.lm_head = nn.Linear(sizes.hidden, sizes.vocab, bias=False)

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        logits = self.lm_head(self.model(words)).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tiny(sizes: Sizes = Sizes(), seed: int = 0) -> CausalLM:
    """The model in bf16, on the CPU, from its seed."""
    torch.manual_seed(seed)
    return CausalLM(sizes).to(torch.bfloat16)


def batch(size: int = 4, sizes: Sizes = Sizes(), seed: int = 1) -> tuple[Tensor, Tensor]:
    """Words and next words of `size` sequences, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(sizes.vocab, (size, sizes.sequence + 1), generator=generator)
    return words[:, :-1].contiguous(), words[:, 1:].contiguous()
