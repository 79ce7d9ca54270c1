"""What torch and user code expect of a device."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest
import torch

import restow.emulator as emu

MB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_device_is_the_accelerator():
    assert torch.accelerator.current_accelerator() == torch.device("emu")
    assert torch.accelerator.device_count() == torch.emu.device_count() == 2
    assert torch.zeros(1, device="emu").device == torch.device("emu:0")
    assert torch.zeros(1, device="emu:1").device.index == 1


def test_out_of_memory_is_torchs_error_with_figures():
    emu.set_capacity("4MiB")
    keep = torch.empty(3 * MB, dtype=torch.uint8, device="emu")
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(2 * MB, dtype=torch.uint8, device="emu")
    for figure in ("Tried to allocate 2.00 MiB", "4.00 MiB", "1.00 MiB is free", "3.00 MiB"):
        assert figure in str(error.value)
    del keep
    torch.empty(4 * MB, dtype=torch.uint8, device="emu")


def test_an_operator_whose_result_does_not_fit_is_out_of_memory():
    x = torch.ones(MB, device="emu")
    emu.set_capacity("6MiB")
    with pytest.raises(torch.OutOfMemoryError):
        x.double()
    assert x.sum().item() == MB


def test_memory_is_counted_by_storage():
    assert emu.memory_allocated() == 0
    x = torch.zeros(1000, device="emu")
    view = x[:10]
    y = x.exp()
    assert emu.memory_allocated() == torch.accelerator.memory_allocated() == 8000
    del x
    assert emu.memory_allocated() == 8000
    del view, y
    assert emu.memory_allocated() == 0
    assert emu.max_memory_allocated() == torch.emu.max_memory_allocated() == 8000


def test_new_memory_is_poison():
    assert torch.empty(16, device="emu").isnan().all()
    assert (torch.empty(16, dtype=torch.int64, device="emu") == -1).all()


def test_the_generator_repeats_and_is_not_the_cpus():
    torch.manual_seed(5)
    a = torch.rand(8, device="emu")
    cpu = torch.rand(8)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(8), cpu)
    assert torch.equal(torch.rand(8, device="emu"), a)
    assert torch.equal(a.cpu(), cpu), "operators run the CPU's kernels"


def test_fork_rng_gives_the_state_back():
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="emu"):
        a = torch.rand(4, device="emu")
    assert torch.equal(torch.rand(4, device="emu"), a)


def test_dropout_repeats_from_the_generators_state():
    x = torch.ones(64, device="emu")
    state = torch.emu.get_rng_state()
    a = torch.nn.functional.dropout(x, 0.5)
    cpu_state = torch.get_rng_state()
    torch.emu.set_rng_state(state)
    assert torch.equal(torch.nn.functional.dropout(x, 0.5), a)
    assert torch.equal(torch.get_rng_state(), cpu_state), "the CPU's stream is left alone"


def test_a_generator_of_ones_own_is_used():
    a = torch.randn(4, device="emu", generator=torch.Generator("emu").manual_seed(3))
    b = torch.randn(4, device="emu", generator=torch.Generator("emu").manual_seed(3))
    assert torch.equal(a, b)
    assert torch.randperm(5, device="emu", generator=torch.Generator("emu")).device.type == "emu"


def test_devices_have_generators_of_their_own():
    torch.manual_seed(1)
    a = torch.rand(4, device="emu:0")
    assert torch.equal(torch.rand(4, device="emu:1").cpu(), a.cpu())


def test_copies_between_devices_are_ordered():
    a = torch.arange(8.0, device="emu:0")
    b = (a * 2).to("emu:1", non_blocking=True)
    assert torch.equal((b + 1).cpu(), torch.arange(8.0) * 2 + 1)


def test_tensors_of_two_devices_do_not_mix():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="emu:0") + torch.ones(2, device="emu:1")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="emu:0") + torch.ones(2)
    assert (torch.ones(2, device="emu") + torch.tensor(1.0)).sum().item() == 4


def test_out_tensors_are_resized():
    out = torch.empty(0, device="emu")
    torch.add(torch.ones(3, 2, device="emu"), 1, out=out)
    assert out.shape == (3, 2) and out.sum().item() == 12
    assert emu.memory_allocated() == 2 * 24 - 24


def test_storages_can_be_emptied_and_filled_again():
    x = torch.ones(10, device="emu")
    x.untyped_storage().resize_(0)
    assert emu.memory_allocated() == 0
    x.untyped_storage().resize_(40)
    assert x.isnan().all()


@pytest.mark.parametrize("shape", [(), (0,), (1, 0, 3)])
def test_scalars_and_empty_tensors_work(shape):
    x = torch.ones(shape, device="emu")
    assert torch.equal((x + 1).cpu(), torch.full(shape, 2.0))


def test_views_share_their_storage():
    x = torch.zeros(4, 6, device="emu")
    x.t()[1].fill_(3)
    x.unfold(1, 2, 2)[0, 0, 0] = 5
    torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2)))[3, 2, 1] = 7
    expected = torch.zeros(4, 6)
    expected[:, 1] = 3
    expected[0, 0] = 5
    expected[3, 5] = 7
    assert torch.equal(x.cpu(), expected)


def test_indexing_by_host_indices_works():
    x = torch.arange(6.0, device="emu")
    assert x[torch.tensor([4, 1])].tolist() == [4, 1]
    x[torch.tensor([True, False] * 3)] = -1
    assert x.tolist() == [-1, 1, -1, 3, -1, 5]


def test_streams_and_events_have_torchs_ways():
    stream = torch.emu.Stream()
    assert stream != torch.emu.current_stream()
    with torch.emu.stream(stream):
        assert torch.emu.current_stream() == stream
        event = stream.record_event()
    assert event.query() and stream.query()
    assert torch.emu.default_stream() == torch.emu.current_stream()
    begin, end = torch.Event("emu", enable_timing=True), torch.Event("emu", enable_timing=True)
    emu.configure(op_cost="2ms")
    begin.record()
    torch.ones(3, device="emu")
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) == 2


def test_pinned_memory_is_recognised_and_counted():
    x = torch.zeros(100).pin_memory()
    assert x.is_pinned() and x[5:].is_pinned() and not torch.zeros(3).is_pinned()
    assert emu.pinned_memory_allocated() == 400
    assert torch.zeros(3, device="emu").to("cpu", non_blocking=True).is_pinned()
    del x
    torch.accelerator.synchronize()


def test_pinning_can_fail():
    emu.configure(pinned_capacity=100)
    with pytest.raises(torch.OutOfMemoryError, match="pinned host memory"):
        torch.zeros(100).pin_memory()


def test_without_pinned_memory_nothing_is_pinned_and_copies_wait():
    emu.configure(pinned=False, h2d="1GB/s")
    x = torch.zeros(250_000, pin_memory=True)
    assert not x.is_pinned()
    x.to("emu", non_blocking=True)
    assert emu.now() == 1e-3


def test_with_one_stream_new_streams_are_the_default_one():
    emu.configure(one_stream=True)
    assert torch.Stream(device="emu") == torch.accelerator.current_stream()


def test_opaque_memory_refuses_to_be_read_as_bytes():
    emu.configure(opaque=True)
    x = torch.ones(8, device="emu") * 2
    assert x.to("cpu").sum() == 16
    with pytest.raises(RuntimeError, match="opaque"):
        x.view(torch.uint8).clone()
    with pytest.raises(RuntimeError, match="opaque"):
        torch.empty(0, dtype=torch.uint8, device="emu").set_(x.untyped_storage()).cpu()


def test_one_device_can_be_asked_for():
    emu.configure(devices=1)
    assert torch.accelerator.device_count() == 1
    with pytest.raises(RuntimeError, match="emu:1"):
        torch.zeros(1, device="emu:1")


def test_the_virtual_clock_is_exact_and_repeats():
    def step():
        emu.restart_clock()
        side = torch.Stream(device="emu")
        host = torch.zeros(250_000).pin_memory()  # 1 MB, 1 ms at 1 GB/s
        x = torch.empty(250_000, device="emu")
        with side:
            x.copy_(host, non_blocking=True)
        y = torch.ones(3, device="emu")  # 0 to 3 ms
        torch.accelerator.current_stream().wait_stream(side)
        x.add_(1)  # 3 to 6 ms
        assert emu.now() == 0
        torch.accelerator.synchronize()
        return emu.now(), y

    emu.configure(h2d="1GB/s", op_cost="3ms")
    assert step()[0] == 6e-3
    assert step()[0] == 6e-3
    assert emu.host_wait() == 6e-3


def test_costs_can_be_told_by_operator_and_by_bytes():
    emu.configure(op_cost={"mm": "5ms", "*": "1GB/s"})
    a = torch.empty(1000, 250, device="emu")  # 1 MB
    emu.restart_clock()
    a.exp()  # reads and writes: 2 ms
    torch.accelerator.synchronize()
    assert emu.now() == pytest.approx(2e-3, abs=0)
    a @ a.t()
    torch.accelerator.synchronize()
    assert emu.now() == 7e-3


def test_the_real_clock_takes_the_time_a_copy_takes():
    emu.configure(clock="real", h2d="100MB/s")
    x = torch.zeros(500_000).pin_memory()  # 2 MB: 20 ms
    begin = emu.now()
    x.to("emu", non_blocking=True)
    torch.accelerator.synchronize()
    assert emu.now() - begin >= 20e-3


def test_reading_a_value_waits_for_the_device():
    emu.configure(op_cost="1ms")
    x = torch.ones(4, device="emu")
    assert emu.now() == 0
    assert bool((x == 1).all())
    assert emu.now() >= 3e-3


def test_autocast_lowers_products():
    a = torch.ones(4, 4, device="emu")
    with torch.autocast("emu", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
        assert torch.softmax(a, 0).dtype == torch.float32


def test_module_to_keeps_its_parameters():
    layer = torch.nn.Linear(2, 2)
    weight = layer.weight
    layer.to("emu")
    assert layer.weight is weight and weight.device.type == "emu"


def test_bad_values_are_refused_by_name():
    with pytest.raises(ValueError, match="sideways"):
        emu.configure(schedule="sideways")
    with pytest.raises(ValueError, match="4 gallons"):
        emu.configure(capacity="4 gallons")
    with pytest.raises(ValueError, match="device 5"):
        emu.set_capacity("1GiB", device=5)


def test_host_threads_copy_side_by_side():
    emu.configure(schedule="threads")
    failures = []

    def work(index):
        try:
            device = f"emu:{index}"
            with torch.emu.device(index):
                for _ in range(20):
                    host = torch.randn(1000).pin_memory()
                    x = host.to(device, non_blocking=True)
                    y = (x * 2).to("cpu", non_blocking=True)
                    torch.emu.synchronize(index)
                    assert torch.equal(y, host * 2)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_second_derivatives_of_abs_have_memory():
    def second(device):
        x = torch.linspace(-2, 2, 8).to(device).requires_grad_()
        (g,) = torch.autograd.grad(x.abs().pow(3).sum(), [x], create_graph=True)
        g.square().sum().backward()
        return x.grad.cpu()

    assert torch.equal(second("emu"), second("cpu"))


def test_lazily_conjugated_tensors_are_copied_as_what_they_mean():
    z = torch.randn(3, 4, dtype=torch.complex64)
    e = z.to("emu")
    for on_device, plain in (
        (e.conj(), z.conj()),
        (e.mH, z.mH),
        (e.conj().imag, z.conj().imag),
        (z.conj().to("emu"), z.conj()),
    ):
        assert torch.equal(on_device.cpu(), plain)


def test_torchs_checkpoint_keeps_the_devices_random_numbers():
    from torch.utils.checkpoint import checkpoint

    def gradient(run):
        torch.emu.manual_seed(3)
        x = torch.ones(64, device="emu", requires_grad=True)
        run(lambda t: torch.nn.functional.dropout(t.sin(), 0.5).exp(), x).sum().backward()
        return x.grad.cpu()

    plain = gradient(lambda fn, x: fn(x))
    assert torch.equal(gradient(lambda fn, x: checkpoint(fn, x, use_reentrant=False)), plain)


def test_what_a_copy_held_is_let_go_of_while_other_threads_ask_the_machine():
    """Outside the machine's lock: dropping a tensor that Python knows takes the interpreter's lock,
    which a thread that asks may hold.
    """
    done = subprocess.run(
        [sys.executable, "-c", COPIES_AND_QUESTIONS],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


COPIES_AND_QUESTIONS = """
import threading, torch
import restow.emulator as emu

def copies():
    for _ in range(2000):
        torch.ones(64).to("emu")

def questions():
    for _ in range(20000):
        torch.emu.default_generator(0)
        emu.memory_allocated()

work = (copies, copies, questions, questions)
threads = [threading.Thread(target=one, daemon=True) for one in work]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
"""
