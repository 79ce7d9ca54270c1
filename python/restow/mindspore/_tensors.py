"""What the adapter does with MindSpore's tensors: look at their memory, alias and rebuild them.

Nothing here knows of regions. Every call is the framework's own and made on the thread of forward
or backward.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.graph.api import _pynative_executor as _executor
from mindspore.common.dtype import _dtype_to_nptype

from restow.mindspore import _targets
from restow.mindspore._library import lib

__all__ = [
    "Form",
    "Memory",
    "alias",
    "bytes_of",
    "checksum",
    "form_of",
    "is_parameter",
    "memory_of",
    "quietly",
    "records",
    "tensor_from",
    "tensor_over",
    "values_sum",
]


class Memory(NamedTuple):
    """The storage under a tensor: its address on the host, its bytes, the writes it has seen.

    ``version`` grows with the few in-place operators that MindSpore counts.
    """

    address: int
    nbytes: int
    version: int


class Form(NamedTuple):
    """How a tensor lies in its storage: strides and offset in elements."""

    dtype: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    itemsize: int
    contiguous: bool
    whole: bool  # contiguous, and all of its storage


def memory_of(tensor: Any) -> Memory:
    """Waits until the tensor is computed."""
    storage = tensor.untyped_storage()
    return Memory(storage.data_ptr(), storage.nbytes(), tensor._version)


def form_of(tensor: Any) -> Form:
    shape, offset, itemsize = tuple(tensor.shape), int(tensor.storage_offset()), tensor.itemsize
    contiguous = bool(tensor.is_contiguous())
    whole = contiguous and tensor.nbytes == tensor.untyped_storage().nbytes()
    return Form(tensor.dtype, shape, tuple(tensor.stride()), offset, itemsize, contiguous, whole)


def is_parameter(tensor: Any) -> bool:
    """Weights reach hooks as plain tensors that carry their parameter's information."""
    return getattr(tensor, "param_info", None) is not None


def records() -> bool:
    """Does an operator that runs now save anything for backward?"""
    return bool(_executor.grad_flag()) and bool(_executor.enable_grad())


class quietly:
    """Operators inside are not recorded for backward."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _executor.enable_grad()
        _executor.set_enable_grad(False)

    def __exit__(self, *_: Any) -> None:
        _executor.set_enable_grad(self._before)


def alias(tensor: Any) -> Any:
    """The same memory without a history, so that holding it makes no cycle with the graph."""
    with quietly():
        return ops.stop_gradient(tensor)


def checksum(address: int, nbytes: int) -> int:
    return int(lib.restow_checksum(address, nbytes))


@functools.cache
def _numpy_type(dtype: Any) -> Any:
    # The public name of the same function prints a warning at each call.
    return _dtype_to_nptype(dtype)


def values_sum(tensor: Any) -> int:
    """The checksum of a tensor's elements; waits for them, and copies them where they lie elsewhere."""
    if _targets.on_host():
        memory = memory_of(tensor)
        return checksum(memory.address, memory.nbytes)
    array = np.ascontiguousarray(alias(tensor).asnumpy())
    return checksum(array.ctypes.data, array.nbytes)


class _Owned:
    """Memory that numpy may hold: `owner` lives as long as any array over it."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def tensor_over(address: int, nbytes: int, owner: Any, form: Form) -> Any:
    """A tensor of `form` over memory that `owner` keeps; no byte is copied, but see below.

    `address` and `nbytes` are those of what was saved: the storage, or its contiguous part when
    ``form`` counts from there.
    """
    flat = np.asarray(_Owned(address, nbytes, owner)).view(_numpy_type(form.dtype))
    if form.whole:
        return Tensor.from_numpy(flat.reshape(form.shape))
    if records():
        # A backward that is itself differentiated: MindSpore drops the history of what unpack gives
        # when that is a view of another tensor, so it gets one of its own.
        part = np.lib.stride_tricks.as_strided(
            flat[form.offset :], form.shape, [step * form.itemsize for step in form.stride]
        )
        return Tensor.from_numpy(np.array(part, order="C"))
    with quietly():
        storage = Tensor.from_numpy(flat)
        return storage.set_(storage.untyped_storage(), form.offset, form.shape, form.stride)


def bytes_of(tensor: Any, memory: Memory, form: Form) -> Any:
    """A flat uint8 tensor over `memory`, which is the tensor's storage, or its contiguous part."""
    # `set_` and not `reshape`: MindSpore 2.10 crashes where the bytes of a reshaped 0-d tensor are
    # viewed.
    start, count = tensor.storage_offset() if form.whole else 0, memory.nbytes // form.itemsize
    with quietly():
        flat = ops.stop_gradient(tensor).set_(tensor.untyped_storage(), start, (count,), (1,))
        return flat.view(ms.uint8)


def tensor_from(flat: Any, offset: int, form: Form) -> Any:
    """A tensor of `form` in what `bytes_of` gave, or a copy of it, from byte `offset` on."""
    again = records()
    with quietly():
        part = flat[offset:] if offset else flat
        values = part.view(form.dtype)
        start = values.storage_offset() + form.offset
        found = values.set_(values.untyped_storage(), start, form.shape, form.stride)
        # See `tensor_over`: a view would lose its history.
        return found.copy() if again else found
