"""Chains of layers: each layer's group leaves behind its forward, and is back for its backward.

A forward of a wired layer is a *pass* with a group of its own in the engine, so that several passes
of one layer may be under way. The pass is held by the graph: where that is dropped without a
backward, nothing is left.

Nothing is written onto the layers but two hooks, which are plain functions: a copy of a layer has
them too, is not in the table, and is left alone.
"""

import dataclasses
import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Optional, Protocol

import torch
from torch import nn

from restow import _enabled
from restow.errors import Error, InputError
from restow.torch import _regions, _steering
from restow.torch._load import native
from restow.torch._wcompile import never_compiled


class _Handle(Protocol):
    def remove(self) -> None: ...


class Pass:
    """One forward of one layer, until its backward."""

    def __init__(self, core: str) -> None:
        self.core = core  # the group's name in the engine
        self.before: Optional[weakref.ref[Pass]] = None  # of the layer before, in the same forward
        self.launched = self.awaited = self.loading = self.used = False

    def __del__(self) -> None:
        if not self.used and native is not None:
            native.group_drop(self.core)

    def load(self) -> None:
        if self.launched and not self.loading:
            self.loading = True
            native.group_launch_load(self.core)


class Layer:
    """A wired module's place in its chain. Does not keep the module alive."""

    def __init__(self, module: nn.Module, group: _steering.SwapGroup) -> None:
        key = id(module)

        def forget(_: Any) -> None:
            _forget(key)

        # A dying module takes its place with it.
        self.module = weakref.ref(module, forget)
        self.kind = type(module).__name__
        self.group = group
        self.next: Optional[Layer] = None
        self.prev: Optional[Layer] = None
        self.hooks: list[_Handle] = []
        self._latest = threading.local()
        group._last = lambda: self.next is None
        group._hooked = lambda: bool(self.hooks)

    def __repr__(self) -> str:
        return f"{self.kind} ({self.group.name})"

    @property
    def latest(self) -> Optional[Pass]:
        """Its last forward on this thread, if the graph of it still lives."""
        held: Optional[weakref.ref[Pass]] = getattr(self._latest, "ref", None)
        return None if held is None else held()

    def note(self, one: Pass) -> None:
        self._latest.ref = weakref.ref(one)

    def unhook(self) -> None:
        for handle in self.hooks:
            handle.remove()
        self.hooks = []


_layers: dict[int, Layer] = {}
_names = itertools.count()
_passes = itertools.count()


def find(module: nn.Module) -> Optional[Layer]:
    layer = _layers.get(id(module))
    return layer if layer is not None and layer.module() is module else None


def _add(module: nn.Module) -> Layer:
    layer = find(module)
    if layer is None:
        names = {group.name for group in _steering.known()}
        name = next(n for n in map("swap_group_{}".format, _names) if n not in names)
        layer = _layers[id(module)] = Layer(module, _steering.ensure(name))
    return layer


def _forget(key: int) -> None:
    with _steering._lock:
        layer = _layers.pop(key, None)
        if layer is None:
            return
        if layer.next is not None:
            layer.next.prev = None
        if layer.prev is not None:
            layer.prev.next = None
        layer.next = layer.prev = None
        layer.unhook()
    _steering.remove(layer.group)


def wire(first: nn.Module, second: nn.Module) -> None:
    """See `SwapManager.set_forward_prefetch_layer`."""
    for module in (first, second):
        if not isinstance(module, nn.Module):
            raise TypeError(f"a chain links modules, not {type(module).__name__}")
    if first is second:
        raise InputError("a layer cannot be linked to itself; link it to the layer that runs next")
    with _steering._lock:
        _check(find(first), find(second))
        one, two = _add(first), _add(second)
        one.next, two.prev = two, one
        for module, layer in ((first, one), (second, two)):
            if not layer.hooks:
                layer.hooks = [
                    module.register_forward_pre_hook(_before_forward, prepend=True),
                    module.register_forward_hook(_after_forward, always_call=True),
                ]


def _check(one: Optional[Layer], two: Optional[Layer]) -> None:
    """Errors: Error when the link would change another, or close a circle."""
    if one is not None and one.next is not None and one.next is not two:
        raise Error(
            f"{one} is already linked to {one.next}; a chain has no branches: call "
            "unregister_forward_prefetch_layer on one of them first"
        )
    if two is not None and two.prev is not None and two.prev is not one:
        raise Error(
            f"{two} already follows {two.prev}; a chain has no branches: call "
            "unregister_forward_prefetch_layer on one of them first"
        )
    after = two
    while one is not None and after is not None:
        if after is one:
            raise Error(f"linking {one} to {two} would close a circle: a chain needs a last layer")
        after = after.next


def wired(module: nn.Module, call: str) -> Layer:
    layer = find(module)
    if layer is None:
        raise Error(
            f"{call}: this {type(module).__name__} is in no chain; allowed: "
            "set_forward_prefetch_layer(it, next) or (previous, it)"
        )
    return layer


def unhook(module: nn.Module) -> None:
    with _steering._lock:
        wired(module, "unregister_forward_prefetch_hooks").unhook()


def unwire(module: nn.Module) -> None:
    with _steering._lock:
        wired(module, "unregister_forward_prefetch_layer")
        _forget(id(module))


def unwire_all() -> None:
    with _steering._lock:
        for key in list(_layers):
            _forget(key)


# --- what the hooks do ---


class _Scope:
    """A forward of a wired layer while it runs; inactive where there is nothing to steer."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.one: Optional[Pass] = None
        self._region: Optional[native.Region] = None

    def enter(self) -> None:
        self.one = Pass(f"{self.layer.group.name}#{next(_passes)}")
        self._before = _steering.set_current(self.layer.group.name, self.one.core)
        # For tensors marked outside any region; the last layer's stay. Not inside a checkpoint or
        # another's hooks: it would take what they are to get.
        free = native.current_label() is None and not native.saves_are_taken()
        if free and not self.layer.group.is_last_group:
            self._region = _regions._new_region(
                self.layer.group.name, False, None, False, None, None, None
            )
            self._region.enter()

    def leave(self) -> None:
        if self.one is None:
            return
        if self._region is not None:
            self._region.leave()
        _steering.restore(self._before)


class _Open(threading.local):
    def __init__(self) -> None:
        self.scopes: list[_Scope] = []


_open = _Open()


def _before_forward(module: nn.Module, args: Any) -> None:
    layer = find(module)
    if layer is None:
        return
    scope = _Scope(layer)
    _open.scopes.append(scope)
    # A rerun's tensors are used at once.
    in_backward = torch._C._current_graph_task_id() != -1
    if _enabled.is_enabled() and torch.is_grad_enabled() and not in_backward:
        scope.enter()


def _after_forward(module: nn.Module, args: Any, output: Any) -> None:
    """Called after an exception too, with None for the output: then nothing leaves."""
    scopes = _open.scopes
    if not scopes or scopes[-1].layer.module() is not module:
        return
    scope = scopes.pop()
    scope.leave()
    if scope.one is not None and output is not None:
        _launch(scope.layer, scope.one, output)


def _launch(layer: Layer, one: Pass, output: Any) -> None:
    if not layer.group.is_last_group:
        one.launched = True
        native.group_launch_offload(one.core)
    before = None if layer.prev is None else layer.prev.latest
    if before is not None:
        one.before = weakref.ref(before)
        if before.launched and not before.awaited:
            before.awaited = True
            native.group_wait_offload(before.core)
    for node in {tensor.grad_fn: None for tensor in _tensors(output, set())}:
        if node is not None:
            node.register_prehook(_Backward(one))
    layer.note(one)


class _Backward:
    """Called when the gradient of a layer's output is there, before the layer's backward."""

    def __init__(self, one: Pass) -> None:
        self._pass = one

    def __call__(self, gradients: Any) -> None:
        one = self._pass
        if one.used:
            return
        one.used = True
        before = None if one.before is None else one.before()
        if before is not None and not before.used:
            before.load()
        if one.launched:
            one.load()
            native.group_wait_load(one.core)
        native.group_drop(one.core)


def _tensors(target: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """The tensors in nested mappings, lists, tuples and data classes."""
    if isinstance(target, torch.Tensor):
        yield target
        return
    if id(target) in seen:
        return
    seen.add(id(target))
    if isinstance(target, Mapping):
        target = list(target.values())
    elif dataclasses.is_dataclass(target) and not isinstance(target, type):
        target = [getattr(target, field.name, None) for field in dataclasses.fields(target)]
    if isinstance(target, (list, tuple)):
        for value in target:
            yield from _tensors(value, seen)


for _hook in (_before_forward, _after_forward):
    never_compiled(_hook)
