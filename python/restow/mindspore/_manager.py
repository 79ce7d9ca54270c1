"""SwapManager: groups of saved tensors steered by hand. Not needed: the order is learnt."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from mindspore import nn
from mindspore.graph.api import _pynative_executor as _executor

from restow.errors import InputError
from restow.mindspore import _engine

__all__ = ["Link", "SwapManager", "link_of"]


class Link:
    """One layer's place in a chain of layers."""

    __slots__ = ("_asked", "following", "group", "opened", "previous")

    def __init__(self, group: str) -> None:
        self.group = group
        self.previous: Link | None = None
        self.following: Link | None = None
        self.opened: set[int] = set()
        self._asked = -1

    @property
    def is_last(self) -> bool:
        return self.following is None and self.previous is not None

    def before_unpack(self) -> None:
        """Asks for what the layer before needs, once in each backward."""
        backward = _executor.get_current_autodiff_engine_id()
        if backward == self._asked:
            return
        self._asked = backward
        if self.previous is not None:
            for one in _engine.engines():
                if id(one) in self.previous.opened:
                    one.group_call("launch_load", self.previous.group)


_links: weakref.WeakKeyDictionary[Any, Link] = weakref.WeakKeyDictionary()
_numbers = itertools.count()


def link_of(owner: Any) -> Link | None:
    return _links.get(owner) if isinstance(owner, nn.Cell) else None


def _link(layer: Any) -> Link:
    if not isinstance(layer, nn.Cell):
        raise TypeError(f"set_forward_prefetch_layer takes cells, not {type(layer).__name__}")
    for _, cell in layer.cells_and_names():
        if cell in _links:
            return _links[cell]
    return Link(f"swap_group_{next(_numbers)}")


class SwapManager:
    """The one manager of the process; making it again gives the same."""

    _one: SwapManager | None = None

    def __new__(cls) -> SwapManager:
        if cls._one is None:
            cls._one = super().__new__(cls)
        return cls._one

    def set_forward_prefetch_layer(self, first: Any, second: Any) -> None:
        """States that `second` runs after `first`: in backward, first's tensors are asked for when
        second's backward begins, and the last layer of a chain is left alone.

        Errors: InputError for one layer twice, or a layer with another partner already.
        """
        before, after = _link(first), _link(second)
        if first is second or before is after:
            raise InputError("set_forward_prefetch_layer: a layer cannot follow itself")
        if before.following not in (None, after) or after.previous not in (None, before):
            raise InputError(
                "set_forward_prefetch_layer: one of the layers has another partner; a layer is "
                "followed by one layer and follows one"
            )
        before.following, after.previous = after, before
        for layer, link in ((first, before), (second, after)):
            for _, cell in layer.cells_and_names():
                _links[cell] = link

    def get_current_group_name(self) -> str:
        """The group of what would be saved now; "" outside any."""
        from restow.mindspore._regions import current_group

        return current_group()

    def is_last_group(self, group_name: str | None = None) -> bool:
        name = self.get_current_group_name() if group_name is None else group_name
        return any(link.group == name and link.is_last for link in _links.values())

    def launch_offload(self, group: str) -> None:
        self._call("launch_offload", group)

    def wait_offload(self, group: str) -> None:
        self._call("wait_offload", group)

    def launch_load(self, group: str) -> None:
        self._call("launch_load", group)

    def wait_load(self, group: str) -> None:
        self._call("wait_load", group)

    def release_group_storage(self, group: str) -> None:
        """Forgets the group's name; what is saved lives on."""
        self._call("drop_group", group)

    @staticmethod
    def _call(name: str, group: str) -> None:
        _engine.engine().group_call(name, group)
