"""SwapManager: groups and chains of layers, for those who steer by hand."""

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import nn

from restow.errors import Error
from restow.torch import _chain, _marking, _steering
from restow.torch._load import native
from restow.torch._steering import SwapGroup


class SwapManager:
    """The process's groups; every ``SwapManager()`` is the same one.

    Not needed for swap: without it the engine learns the order. With it, tensors saved in a group
    leave at ``launch_offload`` and ``wait_offload`` and come back at ``launch_load`` and
    ``wait_load``. What is used before it was loaded comes back at its use, so that no order of
    calls can give wrong numbers; an order that makes no sense is a `restow.Error` that says what
    is allowed. Threads: any. The active group is that of the thread and context.

    Micro-batches, pipeline stages and models are kept apart by chains on their own; by hand, give
    each micro-batch a group of its own (``group_context(f"{name}/{microbatch}")``).
    """

    _only: Optional["SwapManager"] = None

    def __new__(cls) -> "SwapManager":
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    # --- chains ---

    def set_forward_prefetch_layer(self, first: nn.Module, second: nn.Module) -> None:
        """Links two layers that run one after the other.

        The first layer's group leaves while the second computes, and is asked back when the
        second's backward begins. The last layer of a chain stays on the device. Said twice, it is
        no change. Errors: Error for a second partner, or a circle; InputError for one layer twice.
        """
        _chain.wire(first, second)

    def unregister_forward_prefetch_hooks(self, module: nn.Module) -> None:
        """Takes the hooks off a wired layer; its group stays, to be steered by hand."""
        _chain.unhook(module)

    def unregister_forward_prefetch_layer(self, module: nn.Module) -> None:
        """Takes a layer out of its chain, and its group away."""
        _chain.unwire(module)

    def group_name_of(self, module: nn.Module) -> Optional[str]:
        """The group of a wired layer; None for any other module."""
        layer = _chain.find(module)
        return None if layer is None else layer.group.name

    # --- the active group ---

    def get_current_group_name(self) -> Optional[str]:
        """The active group of this thread and context; None: none."""
        return _steering.current().name or None

    def set_current_group_name(self, name: Optional[str]) -> None:
        """Makes a group active until the next call; None: none. `group_context` ends by itself."""
        if name is not None:
            _steering.ensure(name)
        _steering.set_current(name or "")

    @contextlib.contextmanager
    def group_context(self, name: str) -> Iterator[SwapGroup]:
        """Inside, `name` is the active group; marked tensors move in it even outside a region."""
        from restow.torch._regions import group

        steered = _steering.ensure(name)
        with group(name):
            yield steered

    # --- groups ---

    def ensure_group(self, name: str) -> SwapGroup:
        """The group of that name, made if need be."""
        return _steering.ensure(name)

    def add_storage(self, group: str, storage: Any) -> None:
        """Tensors, in any nesting: they move with the group once autograd saves them in it.

        Called while the group is active, as inside `group_context` or a layer of a chain. What a
        checkpoint is to recompute does not move, and in its rerun the call does nothing.
        """
        if torch._C._current_graph_task_id() != -1:
            return
        steered = _steering.find(group, "add_storage")
        active = _steering.current().name
        if active != steered.name:
            now = f"the active group is {active!r}" if active else "no group is active"
            raise Error(
                f"add_storage({group!r}): {now}; allowed inside group_context({group!r})"
            )
        nowhere = native.current_label() is None and not native.saves_are_taken()
        if nowhere and not steered.is_last_group:
            raise Error(
                f"add_storage({group!r}): no region is open, so nothing can be saved in the group; "
                f"allowed inside group_context({group!r})"
            )
        _marking.swap_tensor_wrapper(storage)

    def protect_alias_tensors(self, group: str, tensors: Any) -> None:
        """Does nothing for a known group: memory that anyone else holds is never taken away."""
        _steering.find(group, "protect_alias_tensors")

    def launch_offload(self, group: str, copy_stream: Any = None) -> None:
        """Starts the copies out of what was saved in the group."""
        _steering.find(group, "launch_offload").launch_offload(copy_stream)

    def wait_offload(self, group: str, copy_stream: Any = None) -> None:
        """Gives up the device memory of what `launch_offload` sent."""
        _steering.find(group, "wait_offload").wait_offload(copy_stream)

    def launch_load(self, group: str, copy_stream: Any = None) -> None:
        """Starts the copies back."""
        _steering.find(group, "launch_load").launch_load(copy_stream)

    def wait_load(self, group: str, copy_stream: Any = None) -> None:
        """Makes the current stream wait for the copies back."""
        _steering.find(group, "wait_load").wait_load(copy_stream)

    def is_last_group(self, name: Optional[str] = None) -> bool:
        """Is it the last of its chain? Without a name: the active group. False for unknown ones."""
        if name is None:
            return _steering.current().alone
        return any(one.name == name and one.is_last_group for one in _steering.known())

    def release_group_storage(self, group: str) -> None:
        """Forgets what was saved in the group, which may begin anew; it comes back at its use."""
        _steering.find(group, "release_group_storage").release()

    def abort_group(self, group: str) -> None:
        """Waits for the copies under way and takes the group away, whatever its state."""
        steered = _steering.find(group, "abort_group")
        steered._refuse_hooked("abort_group")
        native.drain()
        _steering.remove(steered)

    def active_group_count(self) -> int:
        """Groups that are known now, for finding leaks."""
        return len(_steering.known())

    def reset(self) -> None:
        """Unlinks every layer and takes every group away; no group is active afterwards."""
        _chain.unwire_all()
        for group in _steering.known():
            _steering.remove(group)
        _steering.set_current("")
