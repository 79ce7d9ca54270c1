"""Which device MindSpore runs on, and what that allows."""

from __future__ import annotations

import os

import mindspore as ms

from restow.errors import Unsupported

__all__ = ["SWITCH", "check_tried", "on_host", "target"]

SWITCH = "RESTOW_MINDSPORE_UNTESTED_DEVICES"


def target() -> str:
    """MindSpore's name of the device: CPU, Ascend or GPU."""
    return str(ms.get_context("device_target"))


def on_host() -> bool:
    """Is the memory of tensors the host's, so that its bytes can be looked at where they lie?"""
    return target() == "CPU"


def check_tried() -> None:
    """Errors: Unsupported where swap runs over streams, unless the environment asks for it."""
    if on_host() or os.environ.get(SWITCH) == "1":
        return
    raise Unsupported(
        f"swap on {target()} is written against MindSpore's documentation and was never run on such "
        f"a device. Use checkpoint_wrapper, or switch the region off with restow.disabled(); {SWITCH}"
        "=1 tries it: compare the gradients with plain MindSpore's before you trust them"
    )
