"""An emulated accelerator: a torch device ``emu`` that catches missing synchronisation.

Importing this module makes ``torch.device("emu")`` and ``"emu:1"`` exist. They have a capacity,
streams, events, copies with a bandwidth, pinned host memory and a clock that is modelled, so that
step times repeat to the last digit; `races` lists every access that no wait has ordered.

For tests and demonstrations only: ``emu`` becomes *the* accelerator of the process.
docs/emulator.md says what is modelled, and what is not.
"""

from restow.emulator import _load as _load
from restow.emulator import _device as _device
from restow.emulator._control import (
    Race,
    Span,
    clear_races,
    configure,
    host_wait,
    max_memory_allocated,
    memory_allocated,
    now,
    pinned_memory_allocated,
    races,
    reset,
    reset_peak_memory,
    restart_clock,
    set_bandwidth,
    set_capacity,
    trace,
)

__all__ = [
    "Race",
    "Span",
    "clear_races",
    "configure",
    "host_wait",
    "max_memory_allocated",
    "memory_allocated",
    "now",
    "pinned_memory_allocated",
    "races",
    "reset",
    "reset_peak_memory",
    "restart_clock",
    "set_bandwidth",
    "set_capacity",
    "trace",
]

_device.register()
