"""Keeps torch.compile out of a function without importing the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._C._dynamo import eval_frame

__all__ = ["never_compiled"]


def never_compiled(function: Callable[..., Any]) -> None:
    """Makes torch.compile break the graph at calls of `function`, and leave all it calls alone.

    What torch.compiler.disable does, but that imports the compiler, which takes seconds, and adds
    a call. A module compiled inside `function` stays compiled.
    """
    vars(function)["_torchdynamo_disable"] = True
    vars(function)["_torchdynamo_disable_msg"] = "a Restow region; compile inside the wrapper"
    skip = eval_frame._FrameAction.SKIP
    eval_frame.set_code_exec_strategy(
        function.__code__, eval_frame._FrameExecStrategy(skip, skip)
    )
