"""What surrounds a forward and decides its numbers: random states, seeds, automatic precision."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import mindspore as ms
from mindspore._c_expression.amp import get_curr_amp_strategy

from mindspore.graph.api import _pynative_executor as _executor
from mindspore.train.amp import AmpDecorator

# The package shows a function of that name.
_seed = importlib.import_module("mindspore.common.seed")

__all__ = ["Ambient"]

class Ambient:
    """Of this thread, now."""

    def __init__(self, random: bool) -> None:
        self._random = random
        self._amp = get_curr_amp_strategy()
        if random:
            self._state = ms.get_rng_state()
            # Operators that take seeds draw them from counters in Python.
            self._seeds = dict(_seed._KERNEL_SEED)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """The same surroundings, gradients recorded; afterwards those from before, whatever ran."""
        grad, enabled = _executor.grad_flag(), _executor.enable_grad()
        state, seeds = ms.get_rng_state(), dict(_seed._KERNEL_SEED)
        _executor.set_grad_flag(True)
        _executor.set_enable_grad(True)
        try:
            if self._random:
                ms.set_rng_state(self._state)
                _set_seeds(self._seeds)
            with self._precision():
                yield
        finally:
            ms.set_rng_state(state)
            _set_seeds(seeds)
            _executor.set_grad_flag(grad)
            _executor.set_enable_grad(enabled)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        amp = self._amp
        if not amp:
            return contextlib.nullcontext()
        decorator = AmpDecorator(
            amp.get_amp_level(), amp.get_amp_dtype(), amp.get_white_list(), amp.get_black_list()
        )
        return decorator  # type: ignore[no-any-return]

def _set_seeds(seeds: dict[Any, Any]) -> None:
    _seed._KERNEL_SEED.clear()
    _seed._KERNEL_SEED.update(seeds)
