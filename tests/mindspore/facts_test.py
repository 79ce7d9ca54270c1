"""What the adapter leans on in MindSpore 2.10 on CPU. A new version that changes one fails here."""

import gc
import weakref

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.graph.api import _pynative_executor as executor
from mindspore.utils import MsDispatchMode
from models import bits, tensor


def hooked(body, pack, unpack=lambda saved: saved):
    def fn(x):
        with ms.saved_tensors_hooks(pack, unpack):
            return body(x)

    return ms.grad(fn)


def test_the_defaults_are_pynative_mode_on_cpu():
    assert ms.get_context("mode") == ms.PYNATIVE_MODE
    assert ms.get_context("device_target") == "CPU"


def test_only_the_innermost_pair_of_hooks_is_called():
    outer, inner = [], []

    def body(x):
        with ms.saved_tensors_hooks(lambda t: (inner.append(1), t)[1], lambda t: t):
            return (x * x).sum()

    hooked(body, lambda t: (outer.append(1), t)[1])(tensor(3))
    assert inner
    assert not outer


def test_weights_reach_pack_as_plain_tensors_with_their_address_and_param_info():
    weight, seen = Parameter(tensor(3), name="w"), []
    hooked(lambda x: (x * weight).sum(), lambda t: (seen.append(t), t)[1])(tensor(3))
    [found] = [t for t in seen if t.data_ptr() == weight.data_ptr()]
    assert not isinstance(found, Parameter)
    assert found.param_info is not None


def test_views_of_a_parameter_lose_param_info_and_keep_its_storage():
    weight = Parameter(tensor(4, 4), name="w")
    for view in (weight[1:3], weight.reshape(2, 8), weight.t()):
        assert getattr(view, "param_info", None) is None
        assert view.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()


def test_set_data_moves_a_parameter():
    weight = Parameter(tensor(64), name="w")
    before = weight.data_ptr()
    weight.set_data(tensor(64, seed=1))
    assert weight.data_ptr() != before


def test_the_address_is_given_when_the_tensor_is_computed():
    x, seen = tensor(300, 300), []

    def pack(t):
        storage = t.untyped_storage()
        assert storage.data_ptr() != 0
        seen.append((np.frombuffer(t.asnumpy().tobytes(), np.uint8), t))
        return ops.stop_gradient(t)

    hooked(lambda x: ops.tanh(ops.matmul(ops.matmul(x, x), x)).sum(), pack)(x)
    assert len(seen) >= 3


def test_from_numpy_shares_memory_and_holds_the_array():
    array = np.arange(6, dtype=np.float32)
    x = Tensor.from_numpy(array)
    assert x.data_ptr() == array.ctypes.data

    ended = []

    class Owner:
        def __init__(self):
            self.kept = np.zeros(8, np.uint8)
            self.__array_interface__ = self.kept.__array_interface__

        def __del__(self):
            ended.append(1)

    x = Tensor.from_numpy(np.asarray(Owner()))
    view = x[2:4]
    del x
    gc.collect()
    assert not ended
    del view
    gc.collect()
    assert ended


@pytest.mark.parametrize(
    "dtype", [ms.float32, ms.float16, ms.bfloat16, ms.bool_, ms.complex64, ms.int8, ms.int64]
)
def test_bytes_are_viewed_as_any_type_without_a_copy(dtype):
    raw = Tensor.from_numpy(np.zeros(48, np.uint8))
    typed = raw.view(dtype)
    assert typed.dtype == dtype
    assert typed.data_ptr() == raw.data_ptr()


def test_set_makes_any_view_of_a_storage():
    x = tensor(4, 6)
    view = Tensor.from_numpy(x.asnumpy()).set_(x.untyped_storage(), 1, (2, 3), (6, 2))
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert np.array_equal(view.contiguous().asnumpy(), x.asnumpy().ravel()[1:13].reshape(2, 6)[:, ::2])


def test_stop_gradient_is_an_alias_without_a_history():
    def fn(x):
        y = ops.tanh(x)
        z = ops.stop_gradient(y)
        assert z.data_ptr() == y.data_ptr()
        assert z._grad_node is None
        assert y._requires_grad
        assert not z._requires_grad
        return y.sum()

    ms.grad(fn)(tensor(3))


def test_an_exception_in_pack_or_unpack_keeps_type_and_message():
    class Own(BaseException):
        pass

    def fail(t):
        raise Own("mine")

    for pair in ((fail, lambda t: t), (lambda t: t, fail)):
        with pytest.raises(Own, match="mine"):
            hooked(lambda x: (x * x).sum(), *pair)(tensor(3))


def test_what_pack_returns_dies_with_its_backward():
    class Saved:
        alive = 0

        def __init__(self, t):
            self.t = ops.stop_gradient(t)
            Saved.alive += 1

        def __del__(self):
            Saved.alive -= 1

    step = hooked(lambda x: ops.tanh(x * x).sum(), Saved, lambda saved: saved.t)
    gradient = step(tensor(3))
    gradient.asnumpy()
    gc.collect()
    assert Saved.alive == 0
    with ms.saved_tensors_hooks(Saved, lambda saved: saved.t):
        (tensor(3) * 2).sum()
    assert Saved.alive == 0


def test_changes_in_place_are_not_counted_so_that_plain_gradients_are_silently_wrong():
    def fn(x):
        y = ops.tanh(x)
        z = y * y
        before = y._version
        y.asnumpy()[...] += 1
        assert y._version == before
        return z.sum()

    x = tensor(3)
    y = np.tanh(x.asnumpy())
    right = 2 * y * (1 - y * y)
    assert not np.allclose(ms.grad(fn)(x).asnumpy(), right, atol=1e-3)


def test_what_unpack_gives_as_a_view_of_another_tensor_loses_its_second_derivative():
    def twice(unpack):
        def fn(x):
            with ms.saved_tensors_hooks(lambda t: t.asnumpy().copy(), unpack):
                return (ops.tanh(x) * x * x).sum()

        return bits(ms.grad(ms.grad(fn))(tensor(5)))

    plain = bits(ms.grad(ms.grad(lambda x: (ops.tanh(x) * x * x).sum()))(tensor(5)))
    assert twice(Tensor.from_numpy) == plain
    assert twice(lambda a: Tensor.from_numpy(a).view((5,))) != plain


def test_a_failed_step_leaves_plain_mindspore_unable_to_do_the_next_one_with_a_layer_norm():
    norm = nn.LayerNorm((4,))

    def fails(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        ms.grad(fails)(tensor(2, 4))
    with pytest.raises(RuntimeError, match="LayerNormGrad"):
        ms.grad(lambda x: norm(x).sum())(tensor(2, 4))
    executor.clear_res()
    with pytest.raises(ValueError, match="mine"):
        ms.grad(fails)(tensor(2, 4))
    executor.clear_res()
    ms.grad(lambda x: norm(x).sum())(tensor(2, 4))


def test_random_operators_do_not_repeat_under_the_same_random_state():
    drop = nn.Dropout(p=0.5).set_train()
    x = tensor(32, 32)
    state = ms.get_rng_state()
    first = drop(x)
    ms.set_rng_state(state)
    assert bits(first) != bits(drop(x))


def test_dispatch_shows_operators_below_their_gradients():
    class Substitute(MsDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            return ops.zeros_like(args[0]) if func.name == "Tanh" else func(*args, **(kwargs or {}))

    packed = []

    def fn(x):
        with ms.saved_tensors_hooks(lambda t: (packed.append(t), t)[1], lambda t: t), Substitute():
            return ops.tanh(x).sum()

    # The gradient of tanh where its result is 0, from the result that was put there.
    assert np.array_equal(ms.grad(fn)(tensor(3)).asnumpy(), np.ones(3, np.float32))
    assert len(packed) == 1


def test_an_empty_graph_records_inside_unpack_and_leaves_the_outer_graph_alone():
    seen = []

    def unpack(t):
        before = executor.grad_flag()
        executor.set_grad_flag(True)
        executor.new_empty_graph()
        with ms.saved_tensors_hooks(lambda s: (seen.append(1), s)[1], lambda s: s):
            leaf = tensor(3)
            leaf.requires_grad_()
            ops.tanh(leaf)
        executor.end_empty_graph()
        executor.set_grad_flag(before)
        return t

    got = hooked(lambda x: (x * x).sum(), lambda t: ops.stop_gradient(t), unpack)(tensor(3))
    assert seen
    assert np.array_equal(got.asnumpy(), 2 * tensor(3).asnumpy())


@pytest.mark.parametrize(
    ("operator", "within"),
    [(ops.tanh, False), (lambda x: x * x, False), (nn.LayerNorm((3,)), True)],
    ids=["tanh", "product", "layer norm"],
)
def test_some_operators_save_while_they_run_and_some_after(operator, within):
    running, saved = [], []

    class Watch(MsDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            running.append(func)
            try:
                return func(*args, **(kwargs or {}))
            finally:
                running.pop()

    def pack(t):
        saved.append(bool(running))
        return t

    def fn(x):
        with Watch():
            return operator(x)

    hooked(fn, pack, lambda t: t)(tensor(2, 3))
    assert saved
    assert set(saved) == {within}


def test_operators_that_run_while_one_is_shown_are_shown_to_nobody():
    seen = []

    class Watch(MsDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            seen.append(func.name)
            ops.tanh(tensor(2))
            return func(*args, **(kwargs or {}))

    with Watch():
        ops.exp(tensor(2))
    assert seen == ["Exp"]


def test_a_save_of_two_parameters_of_one_name_writes_one(tmp_path):
    cell = nn.SequentialCell(nn.Dense(2, 2, has_bias=False), nn.Dense(2, 2, has_bias=False))
    for p in cell.get_parameters():
        p.name = "same"
    ms.save_checkpoint(cell, str(tmp_path / "a.ckpt"))
    assert len(ms.load_checkpoint(str(tmp_path / "a.ckpt"))) == 1


def test_most_cells_do_not_pickle():
    import pickle

    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(nn.Dense(1, 1))


def test_a_storage_object_belongs_to_one_tensor_object_and_not_to_the_memory():
    x = tensor(4)
    alias = ops.stop_gradient(x)
    assert x.untyped_storage().data_ptr() == alias.untyped_storage().data_ptr()
    assert x.untyped_storage() != alias.untyped_storage()
    watch = weakref.ref(x.untyped_storage())
    del x
    # The memory lives on, and who watched it was told that it went.
    assert watch() is None
    assert alias.untyped_storage().data_ptr() != 0
