"""One storage is one unit, whatever views of it are saved: cases 8 to 10 and 21."""

import pytest
import torch
from helpers import (
    WAYS,
    Recorder,
    assert_same,
    explained,
    gradients,
    plain,
    settle,
    swap,
)
from torch import nn

import restow.torch as rt


def test_case_08_views_of_one_storage_move_as_one(setting):
    qkv = setting.leaf(6, 12) * 2
    rt.reset_stats()

    def fn(t):
        q, k, v = t.chunk(3, -1)
        return q * k * v

    y = swap(fn, qkv)
    # q and k are saved by the first product; that product and v by the second.
    product = 6 * 4 * 4
    assert rt.stats().units == 2
    assert rt.stats().bytes_out == qkv.nbytes + product
    del y


def test_case_08_views_come_back_with_their_strides_offsets_and_sharing(setting):
    qkv = setting.leaf(6, 12) * 2
    views = qkv.chunk(3, -1)
    found = []

    def note(saved):
        found.extend(
            (t.stride(), t.storage_offset(), t.untyped_storage().data_ptr()) for t in saved
        )
        found.extend(t.clone() for t in saved)

    x = setting.leaf(3)
    y = swap(Recorder.apply, x, note, *views)
    y.sum().backward()
    assert [f[:2] for f in found[:3]] == [(v.stride(), v.storage_offset()) for v in views]
    assert len({f[2] for f in found[:3]}) == 1
    assert_same([v.detach() for v in views], [f.detach() for f in found[3:]])


def test_case_08_a_chunked_projection_into_attention(setting):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def scenario(run):
        torch.manual_seed(0)
        project = nn.Linear(8, 24).to(setting.device)
        x = setting.leaf(2, 5, 8)

        def fn(x):
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in project(x).chunk(3, -1))
            with sdpa_kernel(SDPBackend.MATH):
                return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        run(fn, x).sum().backward()
        return gradients(x, *project.parameters())

    setting.compare(scenario)


def layouts():
    wide = torch.arange(120, dtype=torch.float32)
    return {
        "plain": wide.view(10, 12),
        "expanded": wide[:10].view(10, 1).expand(10, 500),
        "sliced": wide.view(6, 20)[:, ::2],
        "rows of a larger one": wide.view(10, 12)[3:5],
        "transposed": wide.view(10, 12).t(),
        "permuted": wide.view(2, 3, 4, 5).permute(2, 0, 3, 1),
        "channels last": wide.view(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "diagonal": wide[:100].view(10, 10).diagonal(),
        "overlapping": wide.as_strided((5, 6), (3, 2), 4),
        "zero size": wide[:0].view(0, 7),
        "zero size of a full storage": wide.view(10, 12)[:, 4:4],
        "no dimensions": torch.tensor(3.5),
        "one element of many": wide[17],
        "complex": torch.complex(wide, -wide).view(10, 12),
        "conjugated": torch.complex(wide, -wide).view(10, 12).conj(),
        "imaginary part of a conjugate": torch.complex(wide, -wide).conj().imag,
        "bool": wide.view(10, 12) > 40,
        "int64": wide.long(),
        "bfloat16": wide.bfloat16(),
        "float8": (wide / 10).to(torch.float8_e4m3fn),
        "bytes": wide.to(torch.uint8)[1:30:3],
    }


@pytest.mark.parametrize("layout", layouts())
def test_case_09_every_layout_comes_back_as_it_was(setting, layout):
    original = layouts()[layout]
    saved = original.to(setting.device)
    if original.stride() != saved.stride() or original.is_conj() != saved.is_conj():
        # Copying to a device densifies: copy the storage and view it there.
        base = original.conj() if original.is_conj() else original
        flat = torch.empty(0, dtype=base.dtype).set_(base.untyped_storage())
        flat = flat.to(setting.device)
        saved = flat.as_strided(base.size(), base.stride(), base.storage_offset())
        saved = saved.conj() if original.is_conj() else saved
    shape = (saved.stride(), saved.storage_offset(), saved.is_conj(), saved.is_neg())
    found = []

    def note(tensors):
        (t,) = tensors
        found.append((t.stride(), t.storage_offset(), t.is_conj(), t.is_neg()))
        # The emulated device cannot copy a conjugated tensor; its conjugate it can.
        found.append((t.conj() if t.is_conj() else t).clone())

    rt.reset_stats()
    x = setting.leaf(3)
    y = swap(Recorder.apply, x, note, saved)
    assert rt.stats().bytes_out <= saved.untyped_storage().nbytes(), "by storage, not by numel"
    y.sum().backward()
    assert found[0][:2] == shape[:2] or layout in ("rows of a larger one", "one element of many")
    assert found[0][0] == shape[0] and found[0][2:] == shape[2:]
    expected = saved.conj() if saved.is_conj() else saved
    assert_same(expected.clone(), found[1])
    assert_same(torch.ones_like(x), x.grad)


def test_case_09_plain_layouts_do_move(setting):
    for layout in ("plain", "transposed", "channels last", "bool", "float8", "bfloat16"):
        saved = layouts()[layout].to(setting.device)
        rt.reset_stats()
        y = swap(Recorder.apply, setting.leaf(3), lambda saved: None, saved)
        assert rt.stats().bytes_out == saved.untyped_storage().nbytes(), layout
        del y


class Tied(nn.Module):
    """Trainable, frozen and tied weights, a buffer; saves x, its tanh, and the last product."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.last = nn.Linear(6, 6, bias=False)
        self.last.weight = self.first.weight
        self.register_buffer("scale", torch.linspace(1, 2, 6))

    def forward(self, x):
        y = self.first(x).tanh()
        return self.last(self.frozen(y) * self.scale)


def test_case_10_parameters_and_buffers_never_move(setting):
    torch.manual_seed(0)
    model = Tied().to(setting.device)
    x = setting.leaf(4, 6) * 1
    rt.reset_stats()
    y = swap(model, x)
    # The input of `first`, the tanh, and the input of `last`: 4 x 6 numbers of 4 bytes each.
    assert rt.stats().bytes_out == 3 * 4 * 6 * 4
    assert rt.stats().units == 3
    del y


def test_case_10_models_with_frozen_and_tied_weights_train_equal(setting):
    def scenario(run):
        torch.manual_seed(0)
        model = Tied().to(setting.device)
        x = setting.leaf(4, 6)
        run(model, x).sum().backward()
        return gradients(x, *model.parameters())

    setting.compare(scenario)


@pytest.mark.parametrize("reach", ["closure", "bound method", "argument"])
def test_case_10_parameters_are_found_behind_functions(setting, reach):
    model = Tied().to(setting.device)
    x = setting.leaf(4, 6) * 1
    calls = {
        "closure": (lambda t: model(t) * 1, (x,)),
        "bound method": (model.forward, (x,)),
        "argument": (lambda m, t: m(t), (model, x)),
    }
    fn, args = calls[reach]
    rt.reset_stats()
    y = swap(fn, *args)
    assert rt.stats().bytes_out == 3 * 4 * 6 * 4
    del y


def test_case_10_views_of_a_parameter_never_move(setting):
    weight = nn.Parameter(setting.random(6, 6))
    x = setting.leaf(6, 6) * 1
    rt.reset_stats()

    def fn(t):
        return t * weight.t() * weight[0] * weight.view(36)[:6].detach()

    y = swap(fn, x)
    # x and the two products before the last; every other factor is a view of the weight. The last
    # factor wants no gradient, so the product before it is not saved.
    assert rt.stats().bytes_out == 2 * 6 * 6 * 4
    del y


def test_case_10_autocast_copies_of_weights_never_move(setting):
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
    model.to(setting.device)
    x = setting.leaf(4, 8) * 1
    rt.reset_stats()
    with torch.autocast(setting.device, dtype=torch.bfloat16):
        y = swap(model, x)
    # x as bfloat16, and what relu returns: 4 x 8 numbers of 2 bytes each.
    assert rt.stats().bytes_out == 2 * 4 * 8 * 2
    del y


def test_case_10_a_weight_emptied_and_refilled_is_read_through_its_alias(setting):
    def scenario(run):
        torch.manual_seed(0)
        model = nn.Linear(6, 6).to(setting.device)
        x = setting.leaf(4, 6)
        y = run(model, x)
        values = model.weight.detach().clone()
        storage = model.weight.untyped_storage()
        size = storage.nbytes()
        with torch.autograd._unsafe_preserve_version_counter(model.weight), torch.no_grad():
            storage.resize_(0)
            storage.resize_(size)
            model.weight.copy_(values)
        y.sum().backward()
        return gradients(x, *model.parameters())

    setting.compare(scenario, ["swap", "region", "keep"])


def two_tensor(setting):
    from torch.testing._internal.two_tensor import TwoTensor

    return TwoTensor(setting.leaf(4, 5).detach(), setting.random(4, 5)).requires_grad_()


@pytest.mark.parametrize("way", WAYS)
def test_case_21_a_tensor_of_two_tensors(setting, way):
    def scenario(run):
        x = two_tensor(setting)
        y = run(lambda t: (t * 2).sin() * t, x)
        y.sum().backward()
        return [x.grad.a.clone(), x.grad.b.clone()]

    setting.compare(scenario, [way], moves=())


@pytest.mark.parametrize("way", WAYS)
def test_case_21_jagged_tensors(cpu_setting, way):
    def scenario(run):
        parts = [torch.randn(2, 3), torch.randn(4, 3)]
        values = torch.nested.as_nested_tensor(parts, layout=torch.jagged).requires_grad_()
        y = run(lambda t: (t * 2).sin() * t, values)
        y.values().sum().backward()
        return [values.grad.values().clone()]

    cpu_setting.compare(scenario, [way], moves=())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("way", WAYS)
def test_case_21_sparse_tensors(cpu_setting, way, layout):
    def scenario(run):
        dense = torch.eye(5) + torch.ones(5, 5).triu(3)
        matrix = dense.to_sparse(layout=layout)
        x = cpu_setting.leaf(5, 4)
        run(lambda m, t: (m @ (t * 2)).sin(), matrix, x).sum().backward()
        return gradients(x)

    cpu_setting.compare(scenario, [way], moves=())


@pytest.mark.parametrize("way", WAYS)
def test_case_21_meta_tensors(cpu_setting, way):
    x = torch.randn(4, 5, device="meta", requires_grad=True)
    y = WAYS[way](lambda t: (t * 2).exp() * t, x)
    y.sum().backward()
    assert x.grad.shape == x.shape and x.grad.is_meta


def test_case_21_distributed_tensors(cpu_setting, tmp_path):
    from torch import distributed
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    store = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        mesh = DeviceMesh("cpu", [0])

        def scenario(run):
            x = distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)]).requires_grad_()
            w = distribute_tensor(torch.randn(6, 3), mesh, [Replicate()]).requires_grad_()
            run(lambda x, w: (x @ w).tanh().exp(), x, w).sum().backward()
            return [x.grad.to_local().clone(), w.grad.to_local().clone()]

        cpu_setting.compare(scenario, moves=())
    finally:
        distributed.destroy_process_group()


def test_case_21_what_cannot_move_is_listed_with_the_reason(cpu_setting):
    matrix = torch.eye(5).to_sparse()
    y = swap(lambda t: matrix @ t, cpu_setting.leaf(5, 4) * 1)
    rows = [row for row in explained() if row.decision != "moved"]
    assert rows and all(row.reason for row in rows)
    del y


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_case_08_a_storage_of_which_one_view_is_to_stay_stays(setting, order):
    answers = {True: rt.CheckpointPolicy.MUST_SWAP, False: rt.CheckpointPolicy.MUST_SAVE}

    def scenario(run):
        x = setting.leaf(6, 8)
        left, right = (x * 2).chunk(2, -1)
        if run is plain:
            y = left * right
        else:
            asked = iter(order)
            y = rt.swap(lambda a, b: a * b, left, right, policy_fn=lambda t: answers[next(asked)])
            del left, right
            settle()
            assert rt.stats().swapped_bytes == 0
            assert explained()[-1].decision == "kept"
        y.sum().backward()
        return gradients(x)

    setting.compare(scenario, ["swap"], moves=())
