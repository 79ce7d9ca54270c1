"""A cell around a cell that nothing outside can tell from the inner one by its names.

`Transparent` is the base of all wrappers. Reads, writes, names, state dicts and mode switches go to
the inner cell; only hooks of forward and backward, and what a wrapper's class declares, belong to
the wrapper. Nothing here knows of regions.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from mindspore import nn

from restow._overlap import INNER
from restow.mindspore._parameter_names import Attachment, check_unique

__all__ = ["INNER", "Transparent", "site_of"]

_bare = nn.Cell()
# Names that every cell has. The framework expects them to be the cell's own.
_BARE = frozenset(dir(_bare)) | frozenset(_bare.__dict__)
del _bare

# Methods that act on parameters, buffers, children, flags or state dicts, and so on the inner cell.
# They are named one by one, because a user's cell may override any of them.
_PASSED_ON = """
    _add_init_args _add_mixed_precision_flag _apply _children_scope_recursive _get_prims_recursively
    _load_from_state_dict _mp_comm_recompute _named_members _parallel_optimizer_comm_recompute
    _recompute_slice_activation _save_to_state_dict _set_recompute_scope
    _update_local_parameters_name add_flags add_flags_recursive apply buffers cells check_names
    check_names_and_refresh_name get_buffer get_flags get_parameters get_sub_cell
    init_parameters_data insert_child_to_cell insert_param_to_cell load_state_dict name_cells
    named_buffers parameters_and_names parameters_broadcast_dict register_buffer
    register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_state_dict_post_hook register_state_dict_pre_hook remove_redundant_parameters
    set_broadcast_flag set_comm_fusion set_grad set_train to to_empty to_float
    trainable_params untrainable_params update_cell_prefix update_cell_type
""".split()

_numbers = itertools.count(1)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class _Inner:
    """An attribute of the inner cell, read and written through the wrapper.

    While the wrapper is half built there is none, and what `Cell.__init__` assigns is dropped.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        if wrapper is None:
            return self
        inner = wrapper.__dict__.get(INNER)
        if inner is None:
            raise AttributeError(self._name)
        return getattr(inner, self._name)

    def __set__(self, wrapper: Any, value: Any) -> None:
        inner = wrapper.__dict__.get(INNER)
        if inner is not None:
            setattr(inner, self._name, value)


class _ByName(dict[str, Any]):
    """A dict of the inner cell's that is found in, set and deleted by name, and lists nothing.

    Whoever lists what each cell of `cells_and_names` owns meets the inner cell too and must not see
    a parameter twice.
    """

    __slots__ = ("_real",)

    def __init__(self, real: dict[str, Any]) -> None:
        super().__init__()
        self._real = real

    def __contains__(self, name: object) -> bool:
        return name in self._real

    def __getitem__(self, name: str) -> Any:
        return self._real[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._real[name] = value

    def __delitem__(self, name: str) -> None:
        del self._real[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._real.get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        return self._real.pop(name, *default)


class _InnerByName(_Inner):
    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        real = super().__get__(wrapper, owner)
        return real if real is self else _ByName(real)


class Transparent(nn.Cell):  # type: ignore[misc]
    """A cell that holds another one and shows that one's names as its own.

    A subclass declares its attributes by assigning or annotating them in the class body; all other
    writes go to the inner cell.
    """

    _own_names: ClassVar[frozenset[str]] = _BARE
    # True for wrappers that may lie inside a region.
    _nests: ClassVar[bool] = False

    _site: str
    _released: bool
    _attachment: Attachment

    training: Any = _Inner()
    _cells: Any = _Inner()
    _params: Any = _InnerByName()
    _buffers: Any = _InnerByName()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        declared = set(_BARE)
        for base in cls.__mro__:
            declared.update(vars(base), getattr(base, "__annotations__", ()))
        cls._own_names = frozenset(declared)

    def __init__(self, inner: Any) -> None:
        super().__init__(auto_prefix=False)
        self.__dict__.update(
            {
                INNER: inner,
                "_site": site_of(inner),
                "_released": False,
                "_attachment": Attachment(),
            }
        )

    def release(self) -> None:
        """Makes calls go straight to the inner cell, for good."""
        self.__dict__["_released"] = True

    # Reads and writes.

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get(INNER)
        cause: AttributeError | None = None
        if inner is not None and name not in _BARE and not _is_special(name):
            try:
                return getattr(inner, name)
            except AttributeError as error:
                cause = error
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=self) from cause

    def __setattr__(self, name: str, value: Any) -> None:
        inner = self.__dict__.get(INNER)
        if name == INNER:
            raise AttributeError(f"a {type(self).__name__} keeps its cell; wrap the other one")
        if inner is None or name in self._own_names or _is_special(name):
            object.__setattr__(self, name, value)
        else:
            setattr(inner, name, value)

    def __delattr__(self, name: str) -> None:
        inner = self.__dict__.get(INNER)
        if inner is None or name in self._own_names or _is_special(name):
            object.__delattr__(self, name)
        else:
            delattr(inner, name)

    def __dir__(self) -> list[str]:
        names = set(object.__dir__(self)) | set(dir(self.__dict__.get(INNER)))
        return sorted(names)

    # Names.

    def cells_and_names(self, cells: Any = None, name_prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yields the wrapper and then the inner cell, under the same name."""
        visited = cells if cells else set()
        if self in visited:
            return
        if visited:
            self._attachment.note(self, visited)
        visited.add(self)
        yield name_prefix, self
        yield from self.__dict__[INNER].cells_and_names(visited, name_prefix)

    def update_parameters_name(self, prefix: str | None = "", recurse: bool = True) -> None:
        """Called by MindSpore when the cell is attached; see docs/mindspore.md."""
        self._attachment.rename(self.__dict__[INNER], prefix, recurse)

    def parameters_dict(self, recurse: bool = True) -> Any:
        """Errors: InputError when two parameters share a name."""
        check_unique(self.__dict__[INNER])
        return self.__dict__[INNER].parameters_dict(recurse)

    def state_dict(self, *args: Any, **keywords: Any) -> Any:
        """Errors: InputError when two parameters share a name."""
        check_unique(self.__dict__[INNER])
        return self.__dict__[INNER].state_dict(*args, **keywords)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__.get(INNER)!r})"

    # Containers. Where the inner cell is none, Python's own errors name it.

    def __bool__(self) -> bool:
        return bool(self.__dict__[INNER])

    def __len__(self) -> int:
        return len(self.__dict__[INNER])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__[INNER])

    def __contains__(self, item: object) -> bool:
        return item in self.__dict__[INNER]

    def __getitem__(self, key: Any) -> Any:
        return self.__dict__[INNER][key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__[INNER][key] = value

    def __delitem__(self, key: Any) -> None:
        del self.__dict__[INNER][key]

    # Copies.

    def __getstate__(self) -> Any:
        base, attributes = super().__getstate__()
        state = dict(attributes)
        if "#" in state["_site"]:
            del state["_site"]
        return base, state

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_site", site_of(self.__dict__[INNER]))


def _passed_on(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(nn.Cell, name))
    def method(self: Transparent, /, *args: Any, **keywords: Any) -> Any:
        inner = self.__dict__[INNER]
        answer = getattr(inner, name)(*args, **keywords)
        return self if answer is inner else answer

    return method


for _name in _PASSED_ON:
    setattr(Transparent, _name, _passed_on(_name))


def site_of(inner: Any) -> str:
    """A name for statistics: the class of what is wrapped and a number of this process."""
    function = inner.__dict__.get("_fn")
    kind = type(inner).__name__
    if function is not None:
        kind = getattr(function, "__name__", type(function).__name__)
    return f"{kind}#{next(_numbers)}"
