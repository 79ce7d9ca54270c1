"""A module around a module that nothing outside can tell from the inner one by its names.

`Transparent` is the base of all wrappers. Reads, writes, names, state dicts and mode switches go to
the inner module; only hooks of forward and backward, and what a wrapper's class declares, belong to
the wrapper. Nothing here knows of regions.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from torch import nn

from restow._overlap import INNER
from restow.errors import Unsupported
from restow.torch._wsharding import asks_for_state, share_state

__all__ = ["INNER", "Transparent"]

# Names that every module has. The framework expects them to be the module's own.
_BARE = frozenset(dir(nn.Module()))

# Methods that act on parameters, buffers, children or state dicts, and so on the inner module. They
# are named one by one, because a user's module may override any of them.
_PASSED_ON = """
    _apply _load_from_state_dict _named_members _register_load_state_dict_pre_hook
    _register_state_dict_hook _save_to_state_dict add_module apply bfloat16 buffers cpu cuda double
    eval float half ipu load_state_dict mtia named_buffers named_children named_parameters
    parameters register_buffer register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook
    requires_grad_ share_memory state_dict to to_empty train type xpu zero_grad
""".split()

_numbers = itertools.count(1)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class _Inner:
    """An attribute of the inner module, read and written through the wrapper.

    While the wrapper is half built there is none, and what `Module.__init__` assigns is dropped.
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
    """A dict of the inner module's that is found in, set and deleted by name, and lists nothing.

    `torch.func.functional_call` and its like look a parameter up in the module they reach by its
    name, which is the wrapper. Whoever lists what each module of `modules()` owns meets the inner
    module too and must not see a parameter twice.
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


class Transparent(nn.Module):
    """A module that holds another one and shows that one's names as its own.

    A subclass declares its attributes by assigning or annotating them in the class body; all other
    names are written to the inner module.
    """

    _own_names: ClassVar[frozenset[str]] = _BARE

    # What statistics and traces call this wrapper.
    _site: str
    # True once `unwrap` has taken the wrapper out of its tree.
    _released: bool

    training: Any = _Inner()
    _modules: Any = _Inner()
    _parameters: Any = _InnerByName()
    _buffers: Any = _InnerByName()
    _non_persistent_buffers_set: Any = _Inner()
    _state_dict_hooks: Any = _Inner()
    _state_dict_pre_hooks: Any = _Inner()
    _load_state_dict_pre_hooks: Any = _Inner()
    _load_state_dict_post_hooks: Any = _Inner()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        declared = set(_BARE)
        for base in cls.__mro__:
            declared.update(vars(base), getattr(base, "__annotations__", ()))
        cls._own_names = frozenset(declared)

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.__dict__.update({INNER: inner, "_site": site_of(inner), "_released": False})

    def release(self) -> None:
        """Makes calls go straight to the inner module, for good."""
        inner = self.__dict__[INNER]
        # On the instance it comes before the class's own forward, in any subclass.
        self.__dict__.update({"_released": True, "forward": inner})

    # Reads and writes.

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get(INNER)
        cause: AttributeError | None = None
        if inner is not None and name not in _BARE and not _is_special(name):
            if asks_for_state(name):
                share_state(self, inner)
            try:
                return getattr(inner, name)
            except AttributeError as error:
                cause = error
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=self) from cause

    def __setattr__(self, name: str, value: Any) -> None:
        inner = self.__dict__.get(INNER)
        if name == INNER:
            raise AttributeError(f"a {type(self).__name__} keeps its module; wrap the other one")
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

    # Names of modules.

    def named_modules(
        self,
        memo: set[nn.Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yields the wrapper and then the inner module, under the same name."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        yield from self.__dict__[INNER].named_modules(memo, prefix, remove_duplicate)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__.get(INNER)!r})"

    # Containers. Where the inner module is none, Python's own errors name it.

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

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_compiled_call_impl", None)
        if "#" in state["_site"]:
            del state["_site"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_site", site_of(self.__dict__[INNER]))

    def _replicate_for_data_parallel(self) -> Transparent:
        raise Unsupported(
            f"nn.DataParallel cannot replicate a {type(self).__name__}: a replica would share the "
            "inner module; use DistributedDataParallel, or unwrap the model first"
        )


def _passed_on(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(nn.Module, name))
    def method(self: Transparent, /, *args: Any, **keywords: Any) -> Any:
        inner = self.__dict__[INNER]
        answer = getattr(inner, name)(*args, **keywords)
        return self if answer is inner else answer

    return method


for _name in _PASSED_ON:
    setattr(Transparent, _name, _passed_on(_name))


def site_of(inner: nn.Module) -> str:
    """A name for statistics: the class of what is wrapped and a number of this process."""
    function = inner.__dict__.get("_fn")
    kind = type(inner).__name__
    if function is not None:
        kind = getattr(function, "__name__", type(function).__name__)
    return f"{kind}#{next(_numbers)}"
