"""Settings: a device, a schedule of its copies, a hook path; each test leaves nothing behind."""

import gc
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import restow.emulator as emu  # noqa: E402
import restow.torch as rt  # noqa: E402
from helpers import SETTINGS, Setting, defaults, eventually, settle  # noqa: E402

# Small tensors gain nothing from more, and other tests run beside these.
torch.set_num_threads(1)
# What is imported by now lives for good: the collections below need not walk it each time.
gc.collect()
gc.freeze()

FAILED = pytest.StashKey[bool]()


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


def restowed(setting: Setting, folder, request):
    """Configures, hands out the setting, and checks that nothing is left of the test."""
    forget_the_last_failure()
    gc.collect()
    emu.reset()
    defaults(folder, setting.hooks)
    rt.reset_stats()
    if setting.schedule:
        emu.configure(schedule=setting.schedule, seed=1)
    device_bytes = emu.memory_allocated()
    yield setting
    gc.collect()
    settle()
    eventually(lambda: emu.memory_allocated() == device_bytes, seconds=1.0)
    races, stats, left = emu.races(), rt.stats(), emu.memory_allocated() - device_bytes
    emu.reset()
    defaults(folder, "proxy")
    # A failed test's traceback holds what the test held.
    if request.node.stash.get(FAILED, False):
        return
    assert races == []
    assert stats.units == 0
    assert stats.host_used_bytes == 0
    assert left == 0, "device bytes that outlive the test"
    # What the test has imported stays too.
    gc.freeze()


@pytest.fixture(scope="session")
def file_folder(tmp_path_factory):
    """Where the file tier keeps what CPU tensors hold."""
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(params=list(SETTINGS))
def setting(request, file_folder):
    yield from restowed(SETTINGS[request.param], file_folder, request)


@pytest.fixture(params=[name for name in SETTINGS if name.startswith("emu")])
def emu_setting(request, file_folder):
    """For what only a device with streams has."""
    yield from restowed(SETTINGS[request.param], file_folder, request)


@pytest.fixture(params=["cpu-proxy", "cpu-python"])
def cpu_setting(request, file_folder):
    """For what the emulated device does not implement."""
    yield from restowed(SETTINGS[request.param], file_folder, request)


@pytest.fixture(params=["cpu-proxy", "emu-late-python"])
def two_settings(request, file_folder):
    """One of each device and hook path, for what is slow."""
    yield from restowed(SETTINGS[request.param], file_folder, request)
