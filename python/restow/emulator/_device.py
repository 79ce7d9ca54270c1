"""``torch.emu``: what torch and user code ask of a device's module."""

import atexit
import contextlib
import pathlib
import time
import types
from collections.abc import Iterator
from typing import Any, Union

import torch
from torch.utils import backend_registration

from restow.emulator import _control
from restow.emulator._load import native

_Device = Union[torch.device, int, str, None]

module = types.ModuleType("torch.emu", "The emulated accelerator, as torch.cuda is CUDA's module.")


def _index(device: _Device = None) -> int:
    if device is None:
        return torch.accelerator.current_device_index()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return torch.accelerator.current_device_index() if index is None else index


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def init() -> None:
    """The device is ready when it is imported."""


def device_count() -> int:
    return native.get_options()[5]


def current_device() -> int:
    return torch.accelerator.current_device_index()


def set_device(device: _Device) -> None:
    torch.accelerator.set_device_index(_index(device))


@contextlib.contextmanager
def device(device: _Device) -> Iterator[None]:
    """The current device inside the block."""
    before = current_device()
    set_device(device)
    try:
        yield
    finally:
        set_device(before)


def get_device_name(device: _Device = None) -> str:
    return f"Restow emulated accelerator {_index(device)}"




class Stream(torch.Stream):
    """A stream of ``emu``; ``torch.Stream(device="emu")`` is the same."""

    def __new__(cls, device: _Device = None, priority: int = 0, **kwargs: Any) -> "Stream":
        if kwargs:
            return super().__new__(cls, **kwargs)
        index = _index(device)
        return super().__new__(cls, device=f"emu:{index}", priority=priority)


class Event(torch.Event):
    """An event of ``emu``; ``torch.Event(device="emu")`` is the same."""

    def __new__(cls, enable_timing: bool = True, blocking: bool = False) -> "Event":
        return super().__new__(cls, device="emu", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: _Device = None) -> torch.Stream:
    return torch.accelerator.current_stream(torch.device("emu", _index(device)))


def default_stream(device: _Device = None) -> torch.Stream:
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=_DEVICE_TYPE)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream: Union[torch.Stream, None]) -> Iterator[None]:
    """The current stream of its device inside the block; None changes nothing."""
    if stream is None:
        yield
        return
    with stream:
        yield


def synchronize(device: _Device = None) -> None:
    torch.accelerator.synchronize(torch.device("emu", _index(device)))


def memory_allocated(device: _Device = None) -> int:
    return _control.memory_allocated(_index(device))


def max_memory_allocated(device: _Device = None) -> int:
    return _control.max_memory_allocated(_index(device))


def reset_peak_memory_stats(device: _Device = None) -> None:
    _control.reset_peak_memory(_index(device))


def memory_reserved(device: _Device = None) -> int:
    return int(native.memory(_index(device))[2])


def max_memory_reserved(device: _Device = None) -> int:
    return int(native.memory(_index(device))[3])


def memory_stats(device: _Device = None) -> dict[str, Any]:
    return dict(torch.accelerator.memory_stats(_index(device)))


def mem_get_info(device: _Device = None) -> tuple[int, int]:
    """Bytes free and in total."""
    capacity = int(native.get_device_options(_index(device))[0])
    return capacity - memory_reserved(device), capacity


def empty_cache() -> None:
    """Nothing is cached."""


def default_generator(device: _Device = None) -> torch.Generator:
    return native.default_generator(_index(device))


def get_rng_state(device: _Device = "emu") -> torch.Tensor:
    return default_generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: _Device = "emu") -> None:
    default_generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    default_generator().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    for i in range(_control.DEVICES):
        default_generator(i).manual_seed(seed)


def initial_seed() -> int:
    return default_generator().initial_seed()


def seed() -> None:
    default_generator().seed()


def _is_in_bad_fork() -> bool:
    return False


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_bf16_supported() -> bool:
    return True


_DEVICE_TYPE = 0


def register() -> None:
    """Makes ``torch.emu`` and the methods that torch generates for a device."""
    global _DEVICE_TYPE
    if hasattr(torch, "emu"):
        return
    backend_registration.rename_privateuse1_backend("emu")
    hidden = {"register", "annotations"}
    for name, value in list(globals().items()):
        public = callable(value) and getattr(value, "__module__", "") == __name__
        if public and name not in hidden:
            setattr(module, name, value)
    # Torch keeps a device's random numbers in its checkpoints only where the module says so.
    module._initialized = True  # type: ignore[attr-defined]
    torch._register_device_module("emu", module)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    _DEVICE_TYPE = torch.accelerator.current_stream("emu").device_type
    atexit.register(_let_backward_end)


def _backward_threads_sleep() -> bool:
    """Linux's word for each of torch's device threads; True where there is no such word."""
    for task in pathlib.Path("/proc/self/task").glob("*"):
        try:
            if (task / "comm").read_text().startswith("pt_autograd"):
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "S":
                    return False
        except OSError:  # it has just ended
            continue
    return True


def _let_backward_end() -> None:
    """Torch's thread of a device drops a graph a moment after backward has returned, and aborts the
    process when it needs the interpreter then and finds it ending. It takes one task after the
    other: when a further one is done and the thread sleeps, the graphs before it are gone.
    """
    for index in range(device_count()):
        try:
            one = torch.ones(1, device=f"emu:{index}", requires_grad=True)
            torch.autograd.backward(one.sum())
        except RuntimeError:  # no memory, or a forked child, whose parent had the threads
            return
    asleep = 0
    for _ in range(500):
        time.sleep(0.001)  # without the interpreter's lock, which the thread may want
        asleep = asleep + 1 if _backward_threads_sleep() else 0
        if asleep == 3:
            return
