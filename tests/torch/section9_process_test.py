"""Ends of processes, forks and wrong versions: cases 24 and 25."""

import pytest
from helpers import script

START = """
import os, sys, tempfile
import torch
import restow.emulator as emu
import restow.torch as rt
rt.configure(file_dir=tempfile.mkdtemp(), min_bytes=0, hooks={hooks!r})
device = {device!r}
swap = lambda t: rt.CheckpointPolicy.MUST_SWAP
x = torch.randn(64, 64, device=device, requires_grad=True)
y = rt.swap(lambda t: (t * 2).exp() * t, x, policy_fn=swap)
z = rt.checkpoint(lambda t: (t * 2).exp() * t, x, swap_inputs=True)
assert rt.stats().units > 0
"""

PLACES = [("cpu", "proxy"), ("emu", "proxy"), ("emu", "python")]


def run(device, hooks, code):
    return script(START.format(device=device, hooks=hooks) + code)


@pytest.mark.parametrize(("device", "hooks"), PLACES)
def test_case_24_the_interpreter_exits_with_live_slots(device, hooks):
    done = run(device, hooks, "print('done', flush=True)\n")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_case_24_the_interpreter_exits_with_live_slots_in_a_module_and_a_cycle():
    code = "keep = [y, z]; keep.append(keep); sys.modules['held'] = keep\nprint('done', flush=True)\n"
    done = run("emu", "proxy", code)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


FORK = """
pid = os.fork()
if pid == 0:
    del y, z
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
(y.sum() + z.sum()).backward()
t = x.detach().requires_grad_()
plain = lambda t: (t * 2).exp() * t
(plain(t).sum() + plain(t).sum()).backward()
assert torch.equal(t.grad.cpu(), x.grad.cpu())
print("done", flush=True)
"""


@pytest.mark.parametrize(("device", "hooks"), PLACES)
def test_case_24_a_forked_child_exits_and_its_parent_goes_on(device, hooks):
    done = run(device, hooks, FORK)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


FORK_BACKWARD = """
from restow import Error
pid = os.fork()
if pid == 0:
    try:
        y.sum().backward()
    except (Error, RuntimeError) as error:
        os._exit(0 if "fork" in str(error) else 3)
    os._exit(4)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
del y, z
print("done", flush=True)
"""


@pytest.mark.parametrize("hooks", ["proxy", "python"])
def test_case_24_a_backward_in_a_forked_child_is_refused(hooks):
    done = run("emu", hooks, FORK_BACKWARD)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("version", ["2.12.1", "2.14.0+cu130"])
def test_case_25_another_minor_version_of_torch_is_refused(version):
    code = (
        "import torch\n"
        f"torch.__version__ = {version!r}\n"
        "try:\n    import restow.torch\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = script(code)
    assert done.returncode == 0, done.stderr
    assert version in done.stdout and "2.13" in done.stdout


def test_case_25_the_minor_version_it_was_built_for_is_taken_whatever_the_patch():
    code = "import torch\ntorch.__version__ = '2.13.9+cu130'\nimport restow.torch\nprint('taken')\n"
    done = script(code)
    assert (done.returncode, done.stdout) == (0, "taken\n"), done.stderr
