"""Recompute: what a function saves is made again by running it once more in backward.

A `Frame` is one call. It gives placeholders to what the forward saves; the first one that backward
asks for runs the function again under a `Replay`, which catches the tensors in the same order.
What must not run a second time (random operators whose state MindSpore does not show, operators that
a policy keeps, excluded regions) is saved with its results, and the replay takes them from there.

Threads: a frame belongs to the thread of its forward; MindSpore runs backward there too.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from mindspore import ops
from mindspore.common.api import _pynative_executor as _executor

from restow.errors import NotDeterministic
from restow.mindspore import _engine
from restow.mindspore._ambient import Ambient
from restow.mindspore._inputs import fill, take
from restow.mindspore._operators import Forced, actors, is_random, watching
from restow.mindspore._providers import Kept, Provider, Saved, enclosing, looking, unlooking
from restow.mindspore._saver import save_through
from restow.mindspore._tensors import alias, checksum, memory_of
from restow.mindspore._trees import map_tensors

__all__ = ["Frame", "Replay", "StopRecompute", "replaying"]

# Asked for each operator: is it to be kept rather than run again?
Keeps = Callable[[str, Any, Any], bool]
Context = contextlib.AbstractContextManager[Any]


class StopRecompute(BaseException):
    """Thrown out of a replay when it has caught all that is needed; no error."""


def replaying() -> Replay | None:
    """The innermost replay of this thread."""
    return next((one for one in reversed(actors()) if isinstance(one, Replay)), None)


class _Form:
    """What a save of the forward looked like."""

    __slots__ = ("dtype", "shape", "sum")

    def __init__(self, tensor: Any, values: bool) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.sum: int | None = None
        if values:
            memory = memory_of(tensor)
            self.sum = checksum(memory.address, memory.nbytes)

    def same(self, other: _Form) -> bool:
        return (self.shape, self.dtype, self.sum) == (other.shape, other.dtype, other.sum)

    def __str__(self) -> str:
        return f"{self.dtype} of {self.shape}"


def _emptied(result: Any) -> Any:
    with looking():
        return map_tensors(result, lambda tensor: ops.zeros((0,), tensor.dtype))


class _Placeholder:
    """Stands for a saved tensor that will be made again."""

    __slots__ = ("__weakref__", "_frame", "_index")

    def __init__(self, frame: Frame, index: int) -> None:
        self._frame = frame
        self._index = index

    def unpack(self) -> Any:
        return self._frame.get(self._index)

    def __del__(self) -> None:
        self._frame.forget(self._index)


class Frame(Provider):
    """One call of a checkpointed function; placeholders keep it alive."""

    def __init__(
        self,
        site: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        inputs_through: Provider | None,
        preserve_random: bool,
        early_stop: bool,
        check: str,
        keeps: Keeps | None,
        context: Context,
    ) -> None:
        super().__init__()
        self.site = site
        self.early_stop = early_stop
        self.check = check
        self.complete = False
        self.forms: list[_Form] = []
        self.kept: dict[int, tuple[str, Any]] = {}
        self._fn = fn
        self._context = context
        self._keeps = keeps
        self._random = preserve_random
        self._outer = enclosing()
        self._ambient = Ambient(preserve_random)
        self._inputs = take((args, kwargs), inputs_through or self._outer, f"{site}'s input")
        self._live: dict[int, weakref.ref[_Placeholder]] = {}
        self._runs: dict[int, dict[int, Any]] = {}
        self._number = 0  # of the next operator
        self._whole = 0  # > 0: inside something that will not run again

    # Forward.

    def enter(self) -> None:
        super().enter()
        actors().append(self)

    def leave(self) -> None:
        if self in actors():
            actors().remove(self)
        super().leave()
        self._outer = None
        self.complete = True

    def save(self, tensor: Any) -> Saved:
        if self._whole:
            return save_through(self._outer, tensor, self.site)
        placeholder = _Placeholder(self, len(self.forms))
        self._live[len(self.forms)] = weakref.ref(placeholder)
        self.forms.append(_Form(tensor, self.check == "values"))
        return placeholder

    def operator(
        self, name: str, args: Any, kwargs: Any, call: Callable[[], Any], forced: Forced
    ) -> Any:
        if self._whole:
            return call()
        number, self._number = self._number, self._number + 1
        if forced is Forced.NO:
            return self._operator(number, name, args, kwargs, call)
        self._whole += 1
        try:
            result = call()
        finally:
            self._whole -= 1
        again = _emptied(result) if forced is Forced.WITHOUT_RESULT else result
        self.kept[number] = (name, take(again, self._outer, f"{self.site}'s {name}"))
        return result

    def _operator(
        self, number: int, name: str, args: Any, kwargs: Any, call: Callable[[], Any]
    ) -> Any:
        # MindSpore shows operators below their gradients: what one saves is saved after this call,
        # by a rerun too, whose substitute for the result gets its history there.
        if not (self._random and is_random(name)) and (
            self._keeps is None or not self._keeps(name, args, kwargs)
        ):
            return call()
        result = call()
        self.kept[number] = (name, take(result, self._outer, f"{self.site}'s {name}", bare=True))
        return result

    # Backward.

    def get(self, index: int) -> Any:
        """The tensor saved at `index`, by a rerun if need be. Errors: NotDeterministic; the user's."""
        key = _executor.get_current_autodiff_engine_id()
        run = self._runs.get(key)
        if run is None or index not in run:
            with unlooking():
                run = self._runs[key] = self._run_again()
        if index not in run:
            raise self.not_repeated("its rerun ended before the tensor that backward asks for")
        return run.pop(index)

    def forget(self, index: int) -> None:
        """Nobody will ask for `index` again."""
        self._live.pop(index, None)
        for run in self._runs.values():
            run.pop(index, None)

    def _run_again(self) -> dict[int, Any]:
        _engine.engine().count_recomputed()
        replay = Replay(self, set(self._live))
        with self._ambient.again():
            args, kwargs = fill(self._inputs)
            replay.enter()
            try:
                _executor.new_empty_graph()
                try:
                    with watching(), self._context:
                        self._fn(*args, **kwargs)
                except StopRecompute as stop:
                    if stop.args[0] is not replay:
                        raise
                else:
                    replay.check_count()
                finally:
                    _executor.end_empty_graph()
            finally:
                replay.leave()
        return replay.caught

    def not_repeated(self, what: str) -> NotDeterministic:
        return NotDeterministic(
            f"{self.site}: the function did not repeat itself when it ran again for backward: "
            f"{what}. It must depend on its arguments and parameters only; random numbers from "
            "MindSpore's operators are taken care of"
        )


class Mute(Provider):
    """For regions inside a rerun, whose tensors were saved for good in the forward."""

    def save(self, tensor: Any) -> Saved:
        return Kept(tensor, "", False)


class Replay(Provider):
    """The rerun of a frame's function."""

    def __init__(self, frame: Frame, wanted: set[int]) -> None:
        super().__init__()
        self.caught: dict[int, Any] = {}
        self._frame = frame
        self._wanted = wanted
        self._last = max(wanted, default=-1)
        self._next = 0
        self._number = 0

    def enter(self) -> None:
        super().enter()
        actors().append(self)

    def leave(self) -> None:
        if self in actors():
            actors().remove(self)
        super().leave()

    def mute(self) -> Mute:
        return Mute()

    def save(self, tensor: Any) -> Saved:
        frame, index = self._frame, self._next
        self._next += 1
        if index < len(frame.forms):
            self._compare(index, tensor)
        elif frame.complete:
            raise frame.not_repeated(f"it saves more than the {len(frame.forms)} tensors of before")
        if index in self._wanted:
            self.caught[index] = alias(tensor)
        if frame.early_stop and index >= self._last:
            raise StopRecompute(self)
        # For a backward within the function itself.
        return Kept(tensor, frame.site, False)

    def operator(
        self, name: str, args: Any, kwargs: Any, call: Callable[[], Any], forced: Forced
    ) -> Any:
        number, self._number = self._number, self._number + 1
        kept = self._frame.kept.get(number)
        if kept is None:
            return call()
        if kept[0] != name:
            raise self._frame.not_repeated(f"operator {number} is {name}, and was {kept[0]}")
        return fill(kept[1])

    def check_count(self) -> None:
        frame = self._frame
        if frame.check != "none" and frame.complete and self._next != len(frame.forms):
            raise frame.not_repeated(f"it saves {self._next} tensors, and saved {len(frame.forms)}")

    def _compare(self, index: int, tensor: Any) -> None:
        frame = self._frame
        if frame.check == "none":
            return
        before, now = frame.forms[index], _Form(tensor, frame.check == "values")
        if not before.same(now):
            what = "other values" if str(before) == str(now) else f"{now}, and was {before}"
            raise frame.not_repeated(f"saved tensor {index} is {what}")
