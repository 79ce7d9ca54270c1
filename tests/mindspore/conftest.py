"""Every test starts from the same settings and leaves nothing behind."""

import gc
import os
import sys
import tempfile

import mindspore as ms
import pytest
from mindspore.device_context.cpu import op_tuning

import restow
import restow.mindspore as rm
from restow.mindspore import (
    _engine,
    _holders,
    _operators,
    _overlap,
    _providers,
    _settings,
    _tensors,
)

# Its compiler leaves what it could not compile in the working folder.
TRACES = tempfile.TemporaryDirectory(prefix="restow-mindspore-")
os.environ["MS_OM_PATH"] = TRACES.name
FAILED = pytest.StashKey[bool]()
ms.runtime.set_cpu_affinity(False)
# How kernels split their work is searched for while they run, by the clock, and a dropout draws other
# numbers under another split: two plain runs differ. One thread leaves nothing to search for.
op_tuning.threads_num(1)
# Its threads wait for each other by spinning, which costs several times the work on few cores.
# asynchronous_test.py runs programs without this.
if os.environ.get("RESTOW_MINDSPORE_ASYNC") != "1":
    ms.runtime.launch_blocking()
gc.collect()
gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def forget_the_last_failure():
    """pytest keeps the last traceback for debuggers, and with it what the failed test held."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)


@pytest.fixture(scope="session")
def file_folder(tmp_path_factory):
    """Where the file tier keeps what tensors hold."""
    return tmp_path_factory.mktemp("tier")


def settle():
    for one in _engine.engines():
        one.drain()


def leftovers():
    """What the engine, or anyone of it, still holds."""
    stats = rm.stats()
    return {
        "units": stats.units,
        "slots": stats.slots,
        "host bytes": stats.host_used_bytes,
        "tensors held": _holders.holders.count(),
        "providers": len(_providers.stack()),
        "actors": len(_operators.actors()),
    }


@pytest.fixture(autouse=True)
def leaves_nothing(request, file_folder):
    forget_the_last_failure()
    _settings.restore(_settings.Settings(file_dir=str(file_folder), min_bytes=0))
    rm.reset_stats()
    before = {id(entry): entry for entry in _overlap._overlaps._table.values()}
    yield
    gc.collect()
    settle()
    # A failed test's traceback holds what the test held.
    if request.node.stash.get(FAILED, False):
        return
    assert leftovers() == dict.fromkeys(leftovers(), 0)
    assert [e for e in _overlap._overlaps._table.values() if id(e) not in before] == []
    # Files of the tier have no name.
    assert os.listdir(file_folder) == []
    assert ms.get_context("mode") == ms.PYNATIVE_MODE
    assert restow._enabled._off == 0
    # Else the next test's inference would be taken for training.
    assert not _tensors.records()
    # What the test has imported stays; the next collection need not walk it.
    gc.freeze()
