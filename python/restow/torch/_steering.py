"""Which group is active, and what may be asked of a group next.

A group that `SwapManager` knows is *steered*: its tensors move when its four calls say so, and not
before. Any other group is a name only, and the engine's learnt order moves its tensors.
"""

import contextvars
import dataclasses
import difflib
import threading
from collections.abc import Callable
from typing import Any, Optional

import torch

from restow.errors import Error, InputError, Unsupported
from restow.torch._load import native


@dataclasses.dataclass(frozen=True)
class Active:
    """The group of what is saved now."""

    name: str  # as users know it; empty: none
    core: str = ""  # as the engine knows it: one per pass for layers of a chain
    manual: bool = False  # moves when its calls say so
    alone: bool = False  # the last of its chain: nothing moves


_NONE = Active("")
_active: contextvars.ContextVar[Active] = contextvars.ContextVar("restow group", default=_NONE)


def current() -> Active:
    """The group of a region that opens now, in this thread and context."""
    active = _active.get()
    if not active.name:
        return active
    group = _groups.get(active.name)
    if group is None:
        return Active(active.name, active.core or active.name)
    # What a rerun saves is used at once; nobody launches it.
    in_backward = torch._C._current_graph_task_id() != -1
    return Active(
        active.name,
        active.core or active.name,
        manual=not in_backward,
        alone=group.is_last_group,
    )


def set_current(name: str, core: str = "") -> Active:
    """Makes a group the active one; returns what `restore` takes."""
    before = _active.get()
    _active.set(Active(name, core) if name else _NONE)
    return before


def restore(before: Active) -> None:
    _active.set(before)


_CALLS = {
    "idle": "launch_offload",
    "offloading": "wait_offload",
    "loading": "wait_load",
}
_SAYS = {
    "idle": "nothing of it is under way",
    "offloading": "its copies to the host are under way",
    "loading": "its copies back are under way",
}


class SwapGroup:
    """Tensors that leave and come back together, when it is told.

    ``launch_offload, wait_offload``, and later ``launch_load, wait_load``: the next pair may begin
    when the one before has ended. A wait never blocks the host where the device has streams: the
    current stream waits. What is used before its load comes back at its use.
    Threads: any; one thread at a time steers a group, and another one's call out of turn is an
    error. Errors: `restow.Error` saying what is allowed now; what the device or the tier threw.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = "idle"
        self._offloaded = 0  # launched and awaited, not loaded since
        # Set by a chain: is it the last, and do the chain's hooks steer it?
        self._last: Callable[[], bool] = bool
        self._hooked: Callable[[], bool] = bool

    def __repr__(self) -> str:
        return f"SwapGroup({self._name!r}, {self._state})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_last_group(self) -> bool:
        """Is it the last of its chain? Its tensors stay on the device."""
        return self._last()

    @property
    def state(self) -> str:
        """idle, offloading or loading."""
        return self._state

    def launch_offload(self, copy_stream: Any = None) -> None:
        """Starts the copies out, behind what is queued on the current stream."""
        if self.is_last_group and not self._hooked():
            raise Error(
                f"launch_offload({self._name!r}): the group is the last of its chain, whose "
                "tensors stay on the device; wire a layer behind it, or use a group of its own"
            )
        self._turn("launch_offload", "idle", "offloading", native.group_launch_offload, copy_stream)

    def wait_offload(self, copy_stream: Any = None) -> None:
        """Gives the device memory up, behind the copies."""
        self._turn("wait_offload", "offloading", "idle", native.group_wait_offload, copy_stream)

    def launch_load(self, copy_stream: Any = None) -> None:
        """Starts the copies back."""
        self._turn("launch_load", "idle", "loading", native.group_launch_load, copy_stream)

    def wait_load(self, copy_stream: Any = None) -> None:
        """Makes the current stream wait for the copies back."""
        self._turn("wait_load", "loading", "idle", native.group_wait_load, copy_stream)

    def release(self) -> None:
        """Forgets what was saved in the group; it comes back when it is used."""
        self._refuse_hooked("release_group_storage")
        self._forget()

    def _forget(self) -> None:
        with _lock:
            self._state = "idle"
            self._offloaded = 0
        native.group_drop(self._name)

    def _refuse_hooked(self, call: str) -> None:
        if self._hooked():
            raise Error(
                f"{call}({self._name!r}): the group belongs to a layer wired by "
                "set_forward_prefetch_layer, whose hooks launch and wait for it; to steer it by "
                "hand, call unregister_forward_prefetch_hooks(layer) first"
            )

    def _allowed(self) -> str:
        calls = [_CALLS[self._state]]
        if self._state == "idle" and self._offloaded:
            calls.append("launch_load")
        return " or ".join(calls)

    def _turn(
        self, call: str, need: str, then: str, act: Callable[[str], None], copy_stream: Any
    ) -> None:
        if copy_stream is not None:
            raise Unsupported(
                f"{call}(copy_stream=...): the engine has streams of its own, one per direction; "
                "leave the argument out"
            )
        self._refuse_hooked(call)
        with _lock:
            before = self._state
            if before != need or (call == "launch_load" and not self._offloaded):
                nothing = " and nothing was offloaded" if call == "launch_load" else ""
                why = _SAYS[before] + (nothing if before == "idle" else "")
                raise Error(
                    f"{call}({self._name!r}) is out of order: {why}; allowed now: "
                    f"{self._allowed()}"
                )
            self._state = then
        try:
            act(self._name)
        except BaseException:
            # A launch that failed has launched nothing; after a wait that failed, launch again.
            with _lock:
                self._state = "idle"
            raise
        with _lock:
            if call == "wait_offload":
                self._offloaded += 1
            elif call == "wait_load":
                self._offloaded -= 1


_lock = threading.RLock()
_groups: dict[str, SwapGroup] = {}


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not name or "#" in name:
        raise InputError(f"group name {name!r} is not a text with letters in it and without '#'")
    return name


def ensure(name: str) -> SwapGroup:
    """The steered group of that name, made if need be."""
    with _lock:
        group = _groups.get(name)
        if group is None:
            group = _groups[check_name(name)] = SwapGroup(name)
        return group


def find(name: str, call: str) -> SwapGroup:
    """Errors: Error naming the call and the nearest name."""
    with _lock:
        group = _groups.get(name)
        if group is not None:
            return group
        near = difflib.get_close_matches(str(name), _groups, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise Error(
        f"{call}: no group is called {name!r}{hint}; a group exists once ensure_group, "
        "group_context, set_current_group_name or set_forward_prefetch_layer has named it"
    )


def known() -> list[SwapGroup]:
    with _lock:
        return list(_groups.values())


def remove(group: SwapGroup) -> None:
    """Takes the group out of the table; what was saved in it comes back when it is used."""
    with _lock:
        if _groups.get(group.name) is group:
            del _groups[group.name]
    group._forget()
