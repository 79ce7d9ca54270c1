"""The mapping onto streams and events, with stand-ins for both: no such device was at hand.

The stand-ins' copies run as late as their order allows: when something that waits for them asks. What
is used without waiting is found poisoned. Where copies out are to end before backward, so that there
is something to bring back, those of the first stream run at once.
"""

import contextlib
import ctypes
import gc

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops
from models import BODIES, bits, gradients, model, must_swap, recover, tensor, train, wrap_layers

import restow
import restow.mindspore as rm
from restow.mindspore import _engine, _runtime, _settings, _targets

POISON = 0xAB


class Queue:
    """A stream: work in order, which has not run yet. The compute stream runs everything at once."""

    def __init__(self, number, at_once):
        self.number = number
        self.at_once = at_once
        self.work = []

    def put(self, item):
        self.work.append(item)
        if self.at_once:
            self.synchronize()

    def synchronize(self):
        while self.work:
            self.work.pop(0)()


class Event:
    def __init__(self, log):
        self.log = log
        self.stream = None
        self.done = True

    def record(self, stream):
        self.log.append(("record", stream.number))
        self.stream, self.done = stream, False
        stream.put(self.reached)

    def reached(self):
        self.done = True

    def wait(self, stream):
        self.log.append(("wait", stream.number))
        stream.put(self.synchronize)

    def query(self):
        return self.done

    def synchronize(self):
        while not self.done:
            self.stream.work.pop(0)()


class StandIn:
    """A runtime whose device memory is MindSpore's CPU memory."""

    def __init__(self):
        self.log = []
        self.compute = Queue(1, at_once=True)
        self.streams = [self.compute]
        self.used = []
        self.pinned = []
        self.fail_copies = self.fail_host = False
        self.out_at_once = False

    def current_stream(self):
        return self.compute

    def new_stream(self):
        at_once = self.out_at_once and len(self.streams) == 1
        self.streams.append(Queue(len(self.streams) + 1, at_once))
        return self.streams[-1]

    def stream_number(self, stream):
        return stream.number

    def new_event(self):
        return Event(self.log)

    @contextlib.contextmanager
    def using(self, stream):
        self.used.append(stream)
        yield
        self.used.pop()

    def empty(self, nbytes):
        self.log.append(("allocate", self.used[-1].number))
        return Tensor.from_numpy(np.full(nbytes, POISON, np.uint8))

    def empty_host(self, nbytes, pinned):
        if self.fail_host:
            raise MemoryError("no host memory today")
        self.pinned.append(pinned)
        whole = np.full(nbytes + 64, POISON, np.uint8)
        start = -whole.ctypes.data % 64
        return Tensor.from_numpy(whole[start : start + nbytes])

    def copy(self, to, source):
        if self.fail_copies:
            raise RuntimeError("no copies today")
        stream = self.used[-1]
        self.log.append(("copy", stream.number))
        assert to.nbytes == source.nbytes
        stream.put(lambda: ctypes.memmove(to.data_ptr(), source.data_ptr(), to.nbytes))


@pytest.fixture
def runtime(monkeypatch):
    one = StandIn()
    monkeypatch.setattr(_targets, "on_host", lambda: False)
    monkeypatch.setenv(_targets.SWITCH, "1")
    monkeypatch.setattr(_engine, "runtime", lambda: one)
    _settings.restore(_settings.Settings(min_bytes=0, keep_last_region=False))
    # Engines of other tests have the same settings and another device.
    monkeypatch.setattr(_engine, "_engines", {})
    yield one
    gc.collect()
    for engine in _engine.engines():
        engine.drain()
        assert engine.streams.counts()["memory"] == 0
        assert engine.stats().host_used_bytes == 0
        engine.close()


def swapped(body):
    return lambda x: rm.swap(body, x, policy_fn=must_swap)


def moved_out(body):
    """As `swapped`, and what has been copied out is let go before backward begins."""

    def fn(x):
        y = swapped(body)(x)
        _engine.engine().drain()
        return y

    return fn


def test_a_device_with_streams_is_refused_and_the_switch_is_named(monkeypatch):
    monkeypatch.setattr(_targets, "target", lambda: "Ascend")
    for fn in (rm.swap_wrapper(model()), swapped(lambda x: ops.tanh(x).sum())):
        with pytest.raises(restow.Unsupported, match="Ascend.*UNTESTED_DEVICES=1 tries it"):
            gradients(fn, tensor(5, 4))
        recover()


def test_the_file_tier_is_refused_on_a_device_with_streams(runtime):
    with pytest.raises(restow.Unsupported, match="tier='file' works on CPU only"):
        rm.region(tier="file")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda cell: rm.swap_wrapper(cell, must_swap),
        lambda cell: rm.checkpoint_wrapper(cell, swap_inputs=True),
        rm.checkpoint_wrapper,
        lambda cell: rm.checkpoint_wrapper(cell, determinism_check="values"),
    ],
    ids=["swap", "both", "recompute", "recompute compared"],
)
@pytest.mark.parametrize("out_at_once", [False, True])
def test_training_is_bit_identical_when_copies_run_as_late_as_they_may(runtime, wrap, out_at_once):
    runtime.out_at_once = out_at_once
    assert train(wrap_layers(model(), wrap)) == train(model())


def test_what_moves_goes_to_pinned_host_memory_and_to_no_file(runtime):
    runtime.out_at_once = True
    whole = wrap_layers(model(), lambda cell: rm.swap_wrapper(cell, must_swap))
    train(whole)
    stats = rm.stats()
    assert stats.bytes_out > 0
    assert stats.bytes_in > 0
    assert stats.file_bytes == 0
    assert set(runtime.pinned) == {True}


@pytest.mark.parametrize("body", BODIES)
def test_any_tensor_comes_back_with_the_same_bits(runtime, body):
    runtime.out_at_once = True
    expected = gradients(body, tensor(4, 4))
    assert gradients(moved_out(body), tensor(4, 4)) == expected
    assert rm.stats().bytes_in > 0


def test_grad_of_grad_is_bit_identical(runtime):
    def body(x):
        return (ops.tanh(x) * x * x).sum()

    expected = bits(ms.grad(ms.grad(body))(tensor(5)))
    assert bits(ms.grad(ms.grad(swapped(body)))(tensor(5))) == expected


def test_a_copy_out_waits_for_what_computes_its_source_and_is_marked(runtime):
    gradients(swapped(lambda x: ops.tanh(x).sum()), tensor(4, 4))
    at = runtime.log.index(("copy", 2))
    # Recorded on the compute stream, waited for on that of the copies, copied, marked.
    assert runtime.log[:at] == [("record", 1), ("wait", 2)]
    assert runtime.log[at + 1] == ("record", 2)


def test_what_comes_back_is_allocated_for_compute_which_waits_for_its_copy(runtime):
    runtime.out_at_once = True
    whole = wrap_layers(model(), lambda cell: rm.swap_wrapper(cell, must_swap))
    train(whole, steps=1)
    copies = [i for i, entry in enumerate(runtime.log) if entry == ("copy", 3)]
    assert copies
    # The allocation, its mark and the wait for it; the wait for the copy out; the copy in; its mark.
    at = copies[0]
    assert ("allocate", 1) in runtime.log[at - 5 : at]
    assert ("wait", 3) in runtime.log[at - 2 : at]
    assert runtime.log[at + 1] == ("record", 3)
    assert ("wait", 1) in runtime.log[at + 1 :]


@pytest.mark.parametrize(
    ("what", "counter"), [("fail_copies", "device_errors"), ("fail_host", "pin_failures")]
)
def test_without_copies_or_host_memory_the_tensor_stays_where_it_is(runtime, what, counter):
    def body(x):
        return (ops.tanh(x) * x).sum()

    expected = gradients(body, tensor(4, 4))
    setattr(runtime, what, True)
    assert gradients(swapped(body), tensor(4, 4)) == expected
    assert rm.stats().bytes_out == 0
    assert getattr(rm.stats(), counter) > 0


def test_a_copy_back_that_fails_raises_with_the_device_s_words(runtime):
    runtime.out_at_once = True

    def body(x):
        y = moved_out(lambda t: (ops.tanh(t) * t).sum())(x)
        runtime.fail_copies = True
        return y

    with pytest.raises(Exception, match="no copies today"):
        gradients(body, tensor(4, 4))
    runtime.fail_copies = False
    recover()


class Call:
    """Records how it is called."""

    def __init__(self, log, name, result=None):
        self.log, self.name, self.result = log, name, result

    def __call__(self, *args, **kwargs):
        self.log.append((self.name, args, kwargs))
        return self.result


def test_mindspore_s_own_runtime_is_asked_as_its_documentation_says(monkeypatch):
    log = []
    own = _runtime.MindSporeRuntime()
    for name in ("current_stream", "Stream", "Event"):
        monkeypatch.setattr(ms.runtime, name, Call(log, name, result=name))
    monkeypatch.setattr(
        ms.runtime, "StreamCtx", Call(log, "StreamCtx", contextlib.nullcontext())
    )
    monkeypatch.setattr(_runtime.mint, "empty", Call(log, "empty"))
    assert own.current_stream() == "current_stream"
    assert own.new_stream() == "Stream"
    assert own.new_event() == "Event"
    with own.using("a stream"):
        own.empty(5)
    own.empty_host(7, True)
    to = type("Tensor", (), {"copy_": Call(log, "copy_")})()
    own.copy(to, "source")
    assert log == [
        ("current_stream", (), {}),
        ("Stream", (), {}),
        ("Event", (), {}),
        ("StreamCtx", ("a stream",), {}),
        ("empty", ((5,),), {"dtype": ms.uint8}),
        ("empty", ((7,),), {"dtype": ms.uint8, "device": "CPU", "pin_memory": True}),
        ("copy_", ("source",), {"non_blocking": True}),
    ]


def test_what_the_mapping_calls_is_there_in_mindspore():
    for name in ("record", "wait", "query", "synchronize"):
        assert callable(getattr(ms.runtime.Event, name))
    for name in ("id", "synchronize"):
        assert hasattr(ms.runtime.Stream, name)
    assert "pin_memory" in _runtime.mint.empty.__doc__
    assert "asynchronously with respect to the" in Tensor.copy_.__doc__
