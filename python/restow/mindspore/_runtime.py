"""MindSpore's own streams, events and memory as a `Runtime`, written against its documentation.

Never run: no device with streams was at hand. What it leans on, each as MindSpore 2.10 documents it:
operators within ``StreamCtx`` are queued on its stream; ``mint.empty(device="CPU", pin_memory=True)``
is pinned host memory; ``Tensor.copy_(non_blocking=True)`` between CPU and Ascend copies
asynchronously where shape and type agree and both are contiguous.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import mindspore as ms
from mindspore import mint

from restow.mindspore._providers import looking
from restow.mindspore._tensors import quietly

__all__ = ["MindSporeRuntime"]


class MindSporeRuntime:
    """See `restow.mindspore._streams.Runtime`."""

    def current_stream(self) -> Any:
        return ms.runtime.current_stream()

    def new_stream(self) -> Any:
        return ms.runtime.Stream()

    def stream_number(self, stream: Any) -> int:
        return int(stream.id)

    def new_event(self) -> Any:
        return ms.runtime.Event()

    @contextlib.contextmanager
    def using(self, stream: Any) -> Iterator[None]:
        with ms.runtime.StreamCtx(stream), looking(), quietly():
            yield

    def empty(self, nbytes: int) -> Any:
        return mint.empty((nbytes,), dtype=ms.uint8)

    def empty_host(self, nbytes: int, pinned: bool) -> Any:
        with looking(), quietly():
            return mint.empty((nbytes,), dtype=ms.uint8, device="CPU", pin_memory=pinned)

    def copy(self, to: Any, source: Any) -> None:
        to.copy_(source, non_blocking=True)
