"""Every recipe of docs/cookbook.md gives the gradients it gives without Restow, bit for bit."""

import os
import socket
import subprocess
import sys

import pytest
import torch
from helpers import ROOT, assert_same, defaults, eventually
from pages import blocks, outcome, run, sections

import restow.torch as rt

SETTINGS = blocks("cookbook.md")[0]
RECIPES = sections("cookbook.md")
# What each is seen to have done.
DOES = {
    "1. A Hugging Face llama": {"bytes_out"},
    "2. gpt2, recomputed, with dropout": {"recomputed_regions"},
    "3. A Qwen3-MoE, recomputed, with the inputs swapped": {"bytes_out", "recomputed_regions"},
    "4. A convolutional network": {"bytes_out"},
    "5. Gradient accumulation": {"bytes_out", "fused_batches"},
    "6. FSDP2": {"bytes_out", "recomputed_regions"},
    "7. A pipeline, 1F1B": {"bytes_out"},
    "8. Compiled blocks": {"bytes_out"},
    "9. Autocast": {"bytes_out", "recomputed_regions"},
    "10. CPU only, with files": {"bytes_out"},  # a write that backward overtakes is not counted
}
ON_TWO = ("6. FSDP2", "7. A pipeline, 1F1B")


def test_each_of_ten_recipes_is_one_program_and_tested():
    assert set(RECIPES) == set(DOES)
    assert {len(programs) for programs in RECIPES.values()} == {1}


def done(stats):
    return {name for name in ("bytes_out", "recomputed_regions", "fused_batches", "file_bytes")
            if getattr(stats, name) > 0}


@pytest.fixture
def settings(file_folder):
    """Those of the page; afterwards those of the tests."""
    run(SETTINGS, True)
    rt.reset_stats()
    yield
    rt.SwapManager().reset()
    defaults(file_folder, "proxy")


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name not in ON_TWO])
def test_a_recipe_gives_the_gradients_of_the_plain_program(settings, recipe):
    (program,) = RECIPES[recipe]
    expected = outcome(run(program, False))
    assert done(rt.stats()) == set(), "the plain run used Restow"
    assert any(value is not None for name, value in expected.items() if name != "loss")
    actual = outcome(run(program, True))
    assert_same(expected, actual, recipe)
    assert DOES[recipe] <= done(rt.stats())
    assert eventually(lambda: rt.stats().units == 0)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def on_two_processes(program, way, folder):
    """What each process saved. Both are waited for, and ended when one fails."""
    code = folder / "recipe.py"
    code.write_text(program)
    port = str(free_port())
    results = [folder / f"{way}{rank}.pt" for rank in range(2)]
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests" / "torch")])
    processes = [
        subprocess.Popen(
            [sys.executable, "-B", str(ROOT / "tests" / "torch" / "two_processes.py"), str(code),
             way, str(results[rank])],
            env={**os.environ, "PYTHONPATH": path, "RANK": str(rank), "LOCAL_RANK": str(rank),
                 "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                 "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        texts = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(texts)
    return [torch.load(result) for result in results]


@pytest.mark.parametrize("recipe", ON_TWO)
def test_a_recipe_on_two_processes_gives_the_gradients_of_the_plain_program(recipe, tmp_path):
    (program,) = RECIPES[recipe]
    plain = on_two_processes(program, "plain", tmp_path)
    ours = on_two_processes(program, "restow", tmp_path)
    for rank in range(2):
        assert_same(plain[rank]["results"], ours[rank]["results"], f"{recipe}, rank {rank}")
        gradients = [value for name, value in ours[rank]["results"].items() if name != "loss"]
        assert gradients
        assert all(value is not None for value in gradients)
        stats = rt.Stats(**ours[rank]["stats"])
        assert DOES[recipe] <= done(stats)
        assert stats.units == 0
        assert done(rt.Stats(**plain[rank]["stats"])) == set()
