"""The pages for people who come from elsewhere: their code runs, their names exist."""

import re

import pytest
from helpers import ROOT, defaults, eventually
from pages import blocks

import restow
import restow.torch as rt

PAGES = (
    "migrating-from-hyperparallel.md",
    "migrating-from-torch-checkpoint.md",
    "migrating-from-torchtune.md",
)
# The public names of HyperParallel's activation runtime.
THEIRS = """
CheckpointPolicy ActivationPolicy checkpoint swap checkpoint_wrapper ckpt_wrapper swap_wrapper
swap_tensor_wrapper checkpoint_exclude_wrapper async_save_on_cpu AsyncSaveOnCpu base_check_fn
create_selective_checkpoint_contexts create_native_selective_checkpoint_contexts ignore_sac_ops
keep_collectives_policy get_recompute_state is_recomputing recompute_handle_collector_ctx
recompute_handle recompute_session_ctx clear_recompute_session _teardown_wired_swap_layers
ActivationWrapper SwapWrapper CheckpointWrapper FuncModule FuncCell track_overlaps unwrap_cell
update_parameters_name set_forward_prefetch_layer get_current_group_name set_current_group_name
group_context ensure_group add_storage protect_alias_tensors launch_offload wait_offload
launch_load wait_load is_last_group release_group_storage abort_group
unregister_forward_prefetch_hooks unregister_forward_prefetch_layer active_group_count Storage
SwapGroup SwapTensor PinnedMemoryPool OffloadSession OffloadConfig skip_offload
""".split()


def text(page):
    return (ROOT / "docs" / page).read_text()


@pytest.fixture
def settings_of_the_tests(file_folder):
    rt.reset_stats()
    yield
    rt.SwapManager().reset()
    defaults(file_folder, "proxy")


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(settings_of_the_tests, page):
    names = {"__name__": "page"}
    programs = blocks(page)
    assert len(programs) >= 2
    for number, program in enumerate(programs):
        exec(compile(program, f"{page}, block {number}", "exec"), names)
    names.clear()
    assert eventually(lambda: rt.stats().units == 0)


@pytest.mark.parametrize("page", [*PAGES, "cookbook.md"])
def test_every_name_of_ours_on_a_page_exists(page):
    ours = set(re.findall(r"\brt\.(\w+)", text(page)))
    assert ours
    assert {name for name in ours if not hasattr(rt, name)} == set()
    errors = set(re.findall(r"\brestow\.([A-Z]\w+)", text(page)))
    assert {name for name in errors if not hasattr(restow, name)} == set()


@pytest.mark.parametrize("name", THEIRS)
def test_the_table_says_what_becomes_of_every_name_there(name):
    rows = [line for line in text(PAGES[0]).splitlines() if line.startswith("| `")]
    assert any(f"`{name}`" in row.split("|")[1] for row in rows)


def test_every_method_of_theirs_that_the_table_keeps_is_the_managers():
    table = text(PAGES[0]).split("`track_overlaps`")[1].split("`Storage`, `SwapTensor`")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    methods = {
        name for row in rows for name in re.findall(r"`(\w+)`", row) if name in THEIRS
    } - {"unwrap_cell", "update_parameters_name"}
    assert len(methods) == 17
    assert {name for name in methods if not callable(getattr(rt.SwapManager, name, None))} == set()
