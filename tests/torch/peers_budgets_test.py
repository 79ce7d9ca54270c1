"""What users of other offloading tools reported: host memory, budgets, reports (B40 to B44).

B40, memory that cannot be pinned, is in faults_memory_test.py.
"""

import torch
from helpers import (
    Recorder,
    assert_same,
    explained,
    gradients,
    settle,
    swap,
)

import restow.emulator as emu
import restow.torch as rt


def test_b41_odd_sizes_reserve_at_most_a_tenth_more_than_they_use(emu_setting):
    """33 MB rounded to a power of two would be 64 MB. Sizes of large blocks are whole pages."""
    x = emu_setting.leaf(3)
    sizes = [1_300_001, 1_700_003, 2_100_005, 3_333_331]
    tensors = [torch.ones(n, dtype=torch.uint8, device="emu") for n in sizes]
    y = swap(Recorder.apply, x, lambda saved: None, *tensors)
    stats = rt.stats()
    assert stats.host_used_bytes >= sum(sizes)
    assert stats.host_reserved_bytes <= 1.1 * stats.host_used_bytes
    y.sum().backward()
    assert_same([torch.ones_like(x)], gradients(x))


def test_b44_a_peak_that_swap_cannot_lower_is_explained(emu_setting):
    """The saved tensor is the user's own, and stays alive whatever the engine does."""
    x = emu_setting.leaf(64, 64)
    logits = x * 2
    y = swap(torch.sin, logits)
    torch.accelerator.synchronize()
    swap(torch.sin, x * 1)
    assert rt.stats().held_elsewhere_bytes == logits.nbytes
    assert any("held" in row.reason for row in explained())
    y.sum().backward()


def test_b44_every_tensor_has_a_line_that_says_what_happened_to_it(setting):
    rt.reset_stats()
    x = setting.leaf(4, 6)
    answers = {24: rt.CheckpointPolicy.MUST_SWAP, 6: rt.CheckpointPolicy.MUST_SAVE}
    with rt.region("swap", policy_fn=lambda t: answers[t.numel()], name="here"):
        y = (x * 2).exp()
        z = (x[0] * 2).exp()
    rows = explained()
    found = {row.decision: row for row in rows}
    assert found["moved"].bytes == 24 * 4
    assert found["kept"].bytes == 6 * 4
    assert all(row.label.endswith(("(4, 6)", "(6,)", "[4, 6]", "[6]")) for row in rows)
    text = str(rt.explain())
    assert "moved" in text and "kept" in text and "here" in text
    (y.sum() + z.sum()).backward()


def test_b40_the_engine_says_how_much_it_holds(setting):
    x = setting.leaf(64, 64)
    y = swap(lambda t: (t * 2).exp(), x)
    settle()
    if setting.on_emu:
        assert rt.stats().host_used_bytes >= 64 * 64 * 4
    else:
        assert rt.stats().file_bytes >= 64 * 64 * 4
    y.sum().backward()


def test_an_explanation_outlives_the_engine_that_gave_it():
    """Its reason was the engine's own text; another setting lets the engine go."""
    rt.configure(file_dir="")
    x = torch.randn(4, 4, requires_grad=True)
    rt.reset_stats()
    with rt.region("keep", name="explained later"):
        with rt.group("g"):
            rt.swap_tensor_wrapper(y := x * 2, tag="marked")
            z = y.sin()
    z.sum().backward()
    rt.configure(min_bytes=1 << 20)
    rt.configure(min_bytes=0)
    reasons = [row[3] for row in rt.explain()]
    assert any(reason.startswith("CPU tensors can only be moved to files") for reason in reasons)


def test_equal_lines_of_two_sites_are_counted_each_by_itself(setting):
    x = setting.leaf(4, 4)
    rt.reset_stats()
    with rt.group("both"):
        with rt.region("keep", name="first"):
            y = x.sin()
        with rt.region("keep", name="second"):
            z = (y.sin() * 1).sin()
    z.sum().backward()
    labels = [row[0] for row in rt.explain() if row[0].startswith("both::")]
    assert labels == ["both::[4, 4]", "both::[4, 4] x2"]


def test_a_pool_of_ones_own_is_gone_with_its_last_holder(emu_setting):
    x = emu_setting.leaf(64, 64)
    rt.reset_stats()
    for _ in range(3):
        pool = rt.HostPool("1MiB")
        y = rt.swap(
            lambda t: (t * 2).sin(), x, cpu_pool=pool,
            policy_fn=lambda saved: rt.CheckpointPolicy.MUST_SWAP,
        )
        assert rt.stats().host_reserved_bytes > 0
        y.sum().backward()
        del y, pool
        settle()
        assert rt.stats().units == 0
        assert rt.stats().host_reserved_bytes == 0
