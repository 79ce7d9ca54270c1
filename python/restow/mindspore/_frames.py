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
from collections.abc import Callable, Iterator
from typing import Any, Union

from mindspore import ops
from mindspore.graph.api import _pynative_executor as _executor

from restow.errors import NotDeterministic
from restow.mindspore import _engine
from restow.mindspore._ambient import Ambient
from restow.mindspore._inputs import fill, take
from restow.mindspore._operators import Forced, actors, is_random, watching
from restow.mindspore._providers import Kept, Provider, Saved, enclosing, looking, unlooking
from restow.mindspore._saver import save_through
from restow.mindspore._tensors import alias, values_sum
from restow.mindspore._trees import map_tensors

__all__ = ["Frame", "Replay", "StopRecompute", "replaying"]

# Asked for each operator: is it to be kept rather than run again; and if so, by whom?
Keeps = Callable[[str, Any, Any], Union[bool, Provider]]
Context = contextlib.AbstractContextManager[Any]


# Who asks for what a checkpoint or an excluded region within the frame keeps.
_WITHIN = "a region within"


class StopRecompute(BaseException):
    """Thrown out of a replay when it has caught all that is needed; no error."""


def replaying() -> Replay | None:
    """The innermost replay of this thread."""
    return next((one for one in reversed(actors()) if isinstance(one, Replay)), None)


class _Form:
    """What a save of the forward looked like."""

    __slots__ = ("by", "dtype", "shape", "sum")

    def __init__(self, tensor: Any, by: str, values: bool) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        # The operator whose gradient needs it; without it two saves of one shape would pass for
        # each other.
        self.by = by
        self.sum: int | None = None
        if values:
            self.sum = values_sum(tensor)

    def same(self, other: _Form) -> bool:
        return str(self) == str(other) and self.sum == other.sum

    def __str__(self) -> str:
        return f"{self.dtype} of {self.shape} for {self.by}"


@contextlib.contextmanager
def _graph_apart() -> Iterator[None]:
    """What is recorded inside belongs to no backward."""
    _executor.new_empty_graph()
    try:
        yield
    except BaseException:
        # A failure within some operators has dropped that graph already.
        with contextlib.suppress(RuntimeError):
            _executor.end_empty_graph()
        raise
    _executor.end_empty_graph()


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
        # By number of the operator: its name, its results, and how many tensors were saved before.
        self.kept: dict[int, tuple[str, Any, int]] = {}
        self.by = ""
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

    def save(self, tensor: Any, by_operator: bool = False) -> Saved:
        if self._whole:
            return save_through(self._outer, tensor, self.site)
        placeholder = _Placeholder(self, len(self.forms))
        self._live[len(self.forms)] = weakref.ref(placeholder)
        by = self.by if by_operator else _WITHIN
        self.forms.append(_Form(tensor, by, self.check == "values"))
        return placeholder

    def operator(
        self, name: str, args: Any, kwargs: Any, call: Callable[[], Any], forced: Forced
    ) -> Any:
        if self._whole:
            return call()
        number, self._number = self._number, self._number + 1
        self.by = name
        if forced is Forced.NO:
            return self._operator(number, name, args, kwargs, call)
        saved = len(self.forms)
        self._whole += 1
        try:
            result = call()
        finally:
            self._whole -= 1
        again = _emptied(result) if forced is Forced.WITHOUT_RESULT else result
        self._keep(number, name, again, saved, self._outer, bare=False)
        return result

    def _operator(
        self, number: int, name: str, args: Any, kwargs: Any, call: Callable[[], Any]
    ) -> Any:
        # MindSpore shows most operators below their gradients: what one saves is saved after this
        # call, by a rerun too, whose substitute for the result gets its history there.
        keeps = False if self._keeps is None else self._keeps(name, args, kwargs)
        if not keeps and not (self._random and is_random(name)):
            return call()
        saved = len(self.forms)
        result = call()
        whose = keeps if isinstance(keeps, Provider) else self._outer
        self._keep(number, name, result, saved, whose, bare=True)
        return result

    def _keep(
        self,
        number: int,
        name: str,
        result: Any,
        saved: int,
        whose: Provider | None,
        *,
        bare: bool,
    ) -> None:
        inputs = take(result, whose, f"{self.site}'s {name}", bare=bare)
        self.kept[number] = (name, inputs, saved)

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
        wanted = set(self._live)
        with self._ambient.again():
            replay = Replay(self, wanted, self._results_until(wanted))
            args, kwargs = fill(self._inputs)
            replay.enter()
            try:
                with _graph_apart():
                    self._run_until_stopped(replay, args, kwargs)
            finally:
                replay.leave()
        return replay.caught

    def _run_until_stopped(self, replay: Replay, args: Any, kwargs: Any) -> None:
        try:
            with watching(), self._context:
                self._fn(*args, **kwargs)
        except StopRecompute as stop:
            if stop.args[0] is not replay:
                raise
        else:
            replay.check_count()

    def _results_until(self, wanted: set[int]) -> dict[int, tuple[str, Any]]:
        """What a rerun gets instead of running an operator, up to the last tensor that is wanted.

        It is all there before the rerun begins: another frame may have to run again for it, and
        MindSpore shows nobody the operators that run while it shows one.
        """
        last = max(wanted, default=-1) if self.early_stop else len(self.forms)
        return {
            number: (name, fill(saved))
            for number, (name, saved, forms) in self.kept.items()
            if forms <= last
        }

    def not_repeated(self, what: str) -> NotDeterministic:
        return NotDeterministic(
            f"{self.site}: the function did not repeat itself when it ran again for backward: "
            f"{what}. It must depend on its arguments and parameters only; random numbers from "
            "MindSpore's operators are taken care of"
        )


class Mute(Provider):
    """For regions inside a rerun, whose tensors were saved for good in the forward."""

    def save(self, tensor: Any, by_operator: bool = False) -> Saved:
        return Kept(tensor, "", False)


class Replay(Provider):
    """The rerun of a frame's function."""

    def __init__(
        self, frame: Frame, wanted: set[int], results: dict[int, tuple[str, Any]]
    ) -> None:
        super().__init__()
        self.caught: dict[int, Any] = {}
        self.by = ""
        self._frame = frame
        self._results = results
        self._wanted = wanted
        self._last = max(wanted, default=-1)
        self._next = 0
        self._number = 0
        self._running = 0  # operators that save while they run
        self._done = False

    def enter(self) -> None:
        super().enter()
        actors().append(self)

    def leave(self) -> None:
        if self in actors():
            actors().remove(self)
        super().leave()

    def mute(self) -> Mute:
        return Mute()

    def save(self, tensor: Any, by_operator: bool = False) -> Saved:
        frame, index = self._frame, self._next
        self._next += 1
        if index < len(frame.forms):
            self._compare(index, tensor, self.by if by_operator else _WITHIN)
        elif frame.complete:
            raise frame.not_repeated(f"it saves more than the {len(frame.forms)} tensors of before")
        if index in self._wanted:
            self.caught[index] = alias(tensor)
        if frame.early_stop and index >= self._last:
            self._stop()
        # For a backward within the function itself.
        return Kept(tensor, frame.site, False)

    def operator(
        self, name: str, args: Any, kwargs: Any, call: Callable[[], Any], forced: Forced
    ) -> Any:
        number, self._number = self._number, self._number + 1
        self.by = name
        kept = self._results.pop(number, None)
        if kept is None:
            return self._run(call)
        if kept[0] != name:
            raise self._frame.not_repeated(f"operator {number} is {name}, and was {kept[0]}")
        return kept[1]

    def _run(self, call: Callable[[], Any]) -> Any:
        self._running += 1
        try:
            result = call()
        finally:
            self._running -= 1
        if self._done:
            raise StopRecompute(self)
        return result

    def _stop(self) -> None:
        """Ends the rerun: now, or after the operator that saves while it runs.

        An exception from within such an operator would cost MindSpore the graph around it.
        """
        if self._running == 0:
            raise StopRecompute(self)
        self._done = True

    def check_count(self) -> None:
        frame = self._frame
        if frame.check != "none" and frame.complete and self._next != len(frame.forms):
            raise frame.not_repeated(f"it saves {self._next} tensors, and saved {len(frame.forms)}")

    def _compare(self, index: int, tensor: Any, by: str) -> None:
        frame = self._frame
        if frame.check == "none":
            return
        before, now = frame.forms[index], _Form(tensor, by, frame.check == "values")
        if not before.same(now):
            what = "other values" if str(before) == str(now) else f"{now}, and was {before}"
            raise frame.not_repeated(f"saved tensor {index} is {what}")
