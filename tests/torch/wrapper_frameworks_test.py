"""Wrappers under fully_shard, DDP, distributed checkpoints, tensor parallel plans, torch.compile.

Most wrappers here are a user's own, which opens no region, so that names and hooks are tested
alone; the last tests run regions.
"""

import pytest
import torch
import torch.distributed as dist
from helpers import assert_same, defaults
from torch import nn
from wrapper_models import (  # noqa: F401
    Around,
    PassThrough,
    block,
    mixed,
    model,
    swap_all,
    table_is_left_as_it_was,
    train,
    wrap_layers,
)

import restow
import restow.torch as rt


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    """A process group of this process alone."""
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield dist.device_mesh.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def gradients(whole, steps=2):
    """What some steps of training leave: losses, parameters, gradients."""
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    seen: list[torch.Tensor] = []
    for step in range(steps):
        torch.manual_seed(step)
        loss = whole(torch.randn(3, 4)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
        seen += [full(p.grad).clone() for p in whole.parameters()]
        seen += [full(p).detach().clone() for p in whole.parameters()]
    return seen


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def same(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def sharded(kind, mesh):
    from torch.distributed.fsdp import fully_shard

    whole = model()
    for index, layer in enumerate(whole.layers):
        if kind == "inner then wrapped":
            whole.layers[index] = PassThrough(fully_shard(layer, mesh=mesh))
        elif kind == "inner":
            whole.layers[index] = PassThrough(layer)
            fully_shard(whole.layers[index].unwrap_module, mesh=mesh)
        elif kind == "wrapper":
            whole.layers[index] = fully_shard(PassThrough(layer), mesh=mesh)
        elif kind == "root only":
            whole.layers[index] = PassThrough(layer)
    return fully_shard(whole, mesh=mesh)


FULLY_SHARDED = ["plain", "wrapper", "inner", "inner then wrapped", "root only"]


@pytest.mark.parametrize("kind", FULLY_SHARDED)
def test_fully_shard_works_on_the_wrapper_and_on_the_inner_module(one_rank, kind):
    assert same(gradients(sharded(kind, one_rank)), gradients(model()))


@pytest.mark.parametrize("kind", FULLY_SHARDED)
def test_fully_shard_manages_every_parameter_once(one_rank, kind):
    from torch.distributed.tensor import DTensor

    whole = sharded(kind, one_rank)
    assert [n for n, _ in whole.named_parameters()] == [n for n, _ in model().named_parameters()]
    assert all(isinstance(p, DTensor) for p in whole.parameters())


def test_a_sharded_wrapper_is_still_a_wrapper_and_is_not_unwrapped(one_rank):
    from torch.distributed.fsdp import FSDPModule

    whole = sharded("wrapper", one_rank)
    layer = whole.layers[0]
    assert isinstance(layer, FSDPModule)
    assert isinstance(layer, PassThrough)
    layer.calls = 7
    assert not hasattr(layer.unwrap_module, "calls")
    with pytest.raises(restow.Error, match="hooks"):
        rt.unwrap(whole)


@pytest.mark.parametrize("kind", FULLY_SHARDED)
def test_distributed_checkpoints_of_sharded_models_have_the_unwrapped_names(one_rank, kind):
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    whole = sharded(kind, one_rank)
    state = get_model_state_dict(whole)
    assert list(state) == list(model().state_dict())
    set_model_state_dict(whole, {key: torch.zeros_like(value) for key, value in state.items()})
    assert all(not full(p).any() for p in whole.parameters())


def test_distributed_checkpoints_have_the_unwrapped_names():
    from torch.distributed.checkpoint.state_dict import (
        get_model_state_dict,
        get_state_dict,
        set_model_state_dict,
    )

    whole, plain = wrap_layers(model(), PassThrough), model()
    assert list(get_model_state_dict(whole)) == list(get_model_state_dict(plain))
    gradients(whole)
    set_model_state_dict(plain, get_model_state_dict(whole))
    assert same(plain.state_dict().values(), whole.state_dict().values())

    def optimizer_state(module):
        optimizer = torch.optim.Adam(module.parameters())
        module(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        return get_state_dict(module, optimizer)[1]

    assert list(optimizer_state(whole)["state"]) == list(optimizer_state(plain)["state"])


def test_distributed_data_parallel_sees_every_parameter_once(one_rank):
    ddp = nn.parallel.DistributedDataParallel
    assert same(gradients(ddp(wrap_layers(model(), PassThrough))), gradients(ddp(model())))


def test_tensor_parallel_plans_by_name_reach_into_wrappers(one_rank):
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    def parallel(whole):
        plan = {"layers.*.fc1": ColwiseParallel(), "layers.*.fc2": RowwiseParallel()}
        return parallelize_module(whole, one_rank, plan)

    whole = parallel(wrap_layers(model(), PassThrough))
    layer = whole.layers[1].unwrap_module
    assert isinstance(layer.fc1.weight, DTensor)
    assert isinstance(layer.fc2.weight, DTensor)
    plain = model()
    assert [n for n, _ in whole.named_parameters()] == [n for n, _ in plain.named_parameters()]


def test_data_parallel_replicas_are_refused():
    with pytest.raises(restow.Unsupported, match="DistributedDataParallel"):
        PassThrough(block())._replicate_for_data_parallel()


# torch.compile.


class Recorder:
    """A back end that runs what it gets and remembers what that was."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append([str(n.target) for n in graph.graph.nodes if "call" in n.op])
        return graph.forward


@pytest.fixture
def compiler():
    torch._dynamo.reset()
    yield Recorder()
    torch._dynamo.reset()


def plain_call(fn, args, kwargs, **options):
    return fn(*args, **kwargs)


@pytest.fixture(params=["swap", "checkpoint", "exclude"])
def plain_wrap(request, monkeypatch):
    """The wrappers proper, around plain calls."""
    monkeypatch.setattr("restow.torch._regions.run_swapped", plain_call)
    monkeypatch.setattr("restow.torch._checkpoint.run_checkpointed", plain_call)
    monkeypatch.setattr("restow.torch._checkpoint.run_excluded", plain_call)
    return {
        "swap": rt.swap_wrapper,
        "checkpoint": rt.checkpoint_wrapper,
        "exclude": rt.checkpoint_exclude_wrapper,
    }[request.param]


def test_torch_compile_around_a_wrapper_breaks_the_graph_and_stays_right(compiler, plain_wrap):
    whole = Around(plain_wrap(block()))
    compiled = torch.compile(whole, backend=compiler)
    for size in (3, 5):
        x = torch.randn(size, 4, requires_grad=True)
        again = x.detach().clone().requires_grad_()
        expected = Around(block())(x)
        result = compiled(again)
        assert torch.equal(result, expected)
        expected.sum().backward()
        result.sum().backward()
        assert torch.equal(x.grad, again.grad)
        whole.load_state_dict(Around(block()).state_dict())
    text = [" ".join(graph) for graph in compiler.graphs]
    assert any("sin" in graph for graph in text)
    assert any("cos" in graph for graph in text)
    assert not any("sin" in graph and "cos" in graph for graph in text)
    assert not any("linear" in graph or "relu" in graph for graph in text)


def test_torch_compile_with_fullgraph_around_a_wrapper_is_refused_by_torch(compiler, plain_wrap):
    compiled = torch.compile(Around(plain_wrap(block())), backend=compiler, fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="compile inside the wrapper"):
        compiled(torch.randn(3, 4))


def test_a_module_compiled_inside_the_wrapper_stays_compiled(compiler, plain_wrap):
    compiled = torch.compile(block(), backend=compiler, fullgraph=True)
    wrapper = plain_wrap(compiled)
    x = torch.randn(3, 4)
    assert torch.equal(wrapper(x), block()(x))
    assert any("linear" in " ".join(graph) for graph in compiler.graphs)

    compiler.graphs.clear()
    torch._dynamo.reset()
    inner = block()
    inner.compile(backend=compiler, fullgraph=True)
    around = torch.compile(Around(plain_wrap(inner)), backend=compiler)
    assert torch.equal(around(x), Around(block())(x))
    assert any("linear" in " ".join(graph) for graph in compiler.graphs)


def test_torch_compile_of_a_wrapper_itself_stays_right(compiler, plain_wrap):
    x = torch.randn(3, 4)
    wrapper = plain_wrap(block())
    assert torch.equal(torch.compile(wrapper, backend=compiler)(x), block()(x))
    other = plain_wrap(block())
    other.compile(backend=compiler)
    assert torch.equal(other(x), block()(x))


def test_wrapping_imports_no_compiler():
    import subprocess
    import sys

    program = (
        "import sys, torch, restow.torch as rt\n"
        "w = rt.swap_wrapper(torch.nn.ReLU())\n"
        "with torch.no_grad(): w(torch.zeros(1))\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# Frameworks around regions, on the CPU.


@pytest.fixture
def on_cpu(file_folder):
    defaults(file_folder, "proxy")


@pytest.mark.parametrize("wrap", [swap_all, rt.checkpoint_wrapper], ids=["swap", "checkpoint"])
@pytest.mark.parametrize("on_wrapper", [True, False], ids=["wrapper", "inner"])
def test_fully_shard_with_regions_is_bit_identical(on_cpu, one_rank, wrap, on_wrapper):
    from torch.distributed.fsdp import fully_shard

    def run(whole):
        optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
        seen = []
        for step in range(2):
            torch.manual_seed(step)
            loss = whole(torch.randn(5, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            grads = [p.grad for p in whole.parameters()]
            seen += [g.full_tensor() if hasattr(g, "full_tensor") else g.clone() for g in grads]
            seen.append(loss.detach())
        return seen

    whole = wrap_layers(model(), wrap)
    for layer in whole.layers:
        fully_shard(layer if on_wrapper else layer.unwrap_module, mesh=one_rank)
    fully_shard(whole, mesh=one_rank)
    rt.reset_stats()
    assert_same(run(model()), run(whole))
    stats = rt.stats()
    assert stats.bytes_out + stats.recomputed_regions > 0


@pytest.mark.parametrize("wrap", [swap_all, rt.checkpoint_wrapper], ids=["swap", "checkpoint"])
def test_torch_compile_around_and_inside_regions_is_bit_identical(on_cpu, wrap):
    torch._dynamo.reset()
    expected = train(Around(block()), "cpu")
    rt.reset_stats()
    around = torch.compile(Around(wrap(block())), backend="eager")
    assert_same(expected, train(around, "cpu"))
    inside = Around(wrap(torch.compile(block(), backend="eager")))
    assert_same(expected, train(inside, "cpu"))
    stats = rt.stats()
    assert stats.bytes_out + stats.recomputed_regions > 0
    torch._dynamo.reset()


def test_ddp_with_regions_is_bit_identical(on_cpu, one_rank):
    ddp = nn.parallel.DistributedDataParallel
    expected = train(ddp(model()), "cpu", micro_batches=1)
    rt.reset_stats()
    assert_same(expected, train(ddp(mixed(model())), "cpu", micro_batches=1))
    assert rt.stats().bytes_out > 0
