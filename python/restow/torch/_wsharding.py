"""Wrappers and torch's composable state: what is applied to the inner module holds for the wrapper.

`fully_shard` of a model stops at modules that have a state of their own. When the module inside a
wrapper has one, the walk meets the wrapper first, and must stop there: one state may belong to
several modules.
"""

from __future__ import annotations

import sys

from torch import nn

__all__ = ["asks_for_state", "share_state"]


def asks_for_state(name: str) -> bool:
    """Whether an attribute is the one that torch reads right before a module's state."""
    return name.startswith("__composable_api")


def share_state(wrapper: nn.Module, inner: nn.Module) -> None:
    """Gives `wrapper` the state of `inner`, if it has one and the wrapper has none."""
    composable = sys.modules.get("torch.distributed._composable_state")
    if composable is None:
        return
    states = composable._module_state_mapping
    if inner in states and wrapper not in states:
        states[wrapper] = states[inner]
