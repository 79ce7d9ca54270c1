"""Settings, clock and reports of the emulated accelerator."""

import dataclasses
from collections.abc import Mapping
from typing import Literal, Union

from restow.emulator._load import native

Size = Union[int, str]  # bytes, or text with a unit: "4GiB"
Rate = Union[float, str]  # bytes per second, or text: "20GB/s"
Cost = Union[float, str]  # seconds, or text: "30us" fixed, "100GB/s" by the operator's bytes
DEVICES = 2


@dataclasses.dataclass(frozen=True)
class Race:
    """Two accesses of one tensor that nothing orders."""

    kind: str
    tensor: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.second} after {self.first} ({self.tensor})"


@dataclasses.dataclass(frozen=True)
class Span:
    """What ran when on the modelled time line, in seconds."""

    name: str
    device: int
    stream: int
    begin: float
    end: float


@dataclasses.dataclass
class _Options:
    """In the order in which the compiled part takes them."""

    schedule: str = "late"
    clock: str = "virtual"
    seed: int = 0
    launch: float = 0.0
    poll: float = 1e-6
    devices: int = DEVICES
    one_stream: bool = False
    pinned: bool = True
    pinned_capacity: int = -1
    opaque: bool = False
    trace: bool = False


def _size(value: Size) -> int:
    return int(native.parse_size(value)) if isinstance(value, str) else int(value)


def _rate(value: Rate) -> float:
    return float(native.parse_rate(value)) if isinstance(value, str) else float(value)


def _time(value: Union[float, str]) -> float:
    return float(native.parse_time(value)) if isinstance(value, str) else float(value)


def _cost(value: Cost) -> tuple[float, float]:
    """Fixed seconds and bytes per second."""
    if isinstance(value, str) and value.rstrip().endswith("/s"):
        return 0.0, _rate(value)
    return _time(value), 0.0


def _costs(value: Union[Cost, Mapping[str, Cost]]) -> dict[str, tuple[float, float]]:
    costs = value if isinstance(value, Mapping) else {"*": value}
    prefixed = {n if n == "*" or "::" in n else f"aten::{n}": c for n, c in costs.items()}
    return {name: _cost(cost) for name, cost in prefixed.items()}


def configure(
    *,
    clock: Union[Literal["virtual", "real"], None] = None,
    schedule: Union[Literal["early", "late", "random", "threads"], None] = None,
    seed: Union[int, None] = None,
    capacity: Union[Size, None] = None,
    h2d: Union[Rate, None] = None,
    d2h: Union[Rate, None] = None,
    op_cost: Union[Cost, Mapping[str, Cost], None] = None,
    device: int = 0,
    launch: Union[float, str, None] = None,
    poll: Union[float, str, None] = None,
    devices: Union[int, None] = None,
    one_stream: Union[bool, None] = None,
    pinned: Union[bool, None] = None,
    pinned_capacity: Union[Size, None] = None,
    opaque: Union[bool, None] = None,
    trace: Union[bool, None] = None,
) -> None:
    """Waits for the devices, then changes what is named; the rest stays as it is.

    `capacity`, `h2d`, `d2h` and `op_cost` are `device`'s, the others the whole machine's. Sizes,
    rates and times are numbers (bytes, bytes per second, seconds) or text with a unit. `op_cost`
    is the cost of every operator, or a mapping from operator ("mm") to cost, "*" for the rest;
    a cost is a time, or a rate at which the bytes read and written pass. `{}` makes operators
    free again. A change of clock restarts it. Errors: ValueError.
    """
    options = _Options(*native.get_options())
    changes = {
        "clock": clock,
        "schedule": schedule,
        "seed": seed,
        "launch": None if launch is None else _time(launch),
        "poll": None if poll is None else _time(poll),
        "devices": devices,
        "one_stream": one_stream,
        "pinned": pinned,
        "pinned_capacity": None if pinned_capacity is None else _size(pinned_capacity),
        "opaque": opaque,
        "trace": trace,
    }
    named = {name: value for name, value in changes.items() if value is not None}
    native.set_options(*dataclasses.astuple(dataclasses.replace(options, **named)))  # type: ignore[arg-type]
    if any(value is not None for value in (capacity, h2d, d2h, op_cost)):
        _configure_device(device, capacity, h2d, d2h, op_cost)


def _configure_device(
    device: int,
    capacity: Union[Size, None],
    h2d: Union[Rate, None],
    d2h: Union[Rate, None],
    op_cost: Union[Cost, Mapping[str, Cost], None],
) -> None:
    old = native.get_device_options(device)
    native.set_device_options(
        device,
        old[0] if capacity is None else _size(capacity),
        old[1] if h2d is None else _rate(h2d),
        old[2] if d2h is None else _rate(d2h),
        old[3] if op_cost is None else _costs(op_cost),
    )


def set_capacity(capacity: Size, device: int = 0) -> None:
    """The device's memory, in bytes or as text with a unit."""
    configure(capacity=capacity, device=device)


def set_bandwidth(
    h2d: Union[Rate, None] = None, d2h: Union[Rate, None] = None, device: int = 0
) -> None:
    """The host link's rates, in bytes per second or as text with a unit."""
    configure(h2d=h2d, d2h=d2h, device=device)


def reset() -> None:
    """Back to the defaults, the clock at 0, no races. Tensors stay."""
    native.set_options(*dataclasses.astuple(_Options()))
    for device in range(DEVICES):
        native.set_device_options(device, 4 << 30, 20e9, 20e9, {})
        native.reset_peak_memory(device)
    native.restart_clock()
    native.clear_races()


def now() -> float:
    """The host's time in seconds since the clock began."""
    return float(native.now())


def host_wait() -> float:
    """Seconds the host spent waiting for streams and events since the clock began."""
    return float(native.host_wait())


def restart_clock() -> None:
    """Waits for the devices and sets the clock, `host_wait` and the trace back to the start."""
    native.restart_clock()


def races() -> list[Race]:
    """What the detector has found since the last `clear_races`, in the order found."""
    return [Race(*item) for item in native.races()]


def clear_races() -> None:
    """Forgets the races found."""
    native.clear_races()


def trace() -> list[Span]:
    """What ran when; empty without ``configure(trace=True)``."""
    return [Span(*item) for item in native.trace()]


def memory_allocated(device: int = 0) -> int:
    """Bytes of the device's live storages."""
    return int(native.memory(device)[0])


def max_memory_allocated(device: int = 0) -> int:
    """The most that `memory_allocated` has been since `reset_peak_memory`."""
    return int(native.memory(device)[1])


def reset_peak_memory(device: int = 0) -> None:
    """Starts `max_memory_allocated` anew."""
    native.reset_peak_memory(device)


def pinned_memory_allocated() -> int:
    """Bytes of pinned host memory in use."""
    return int(native.pinned_bytes())
