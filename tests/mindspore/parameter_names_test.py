"""The names that parameters carry, in every order of wrapping and attaching."""

import mindspore as ms
import pytest
from mindspore import Parameter, nn, ops
from models import PassThrough, block, model, tensor, wrap  # noqa: F401

import restow
import restow.mindspore as rm


def names(cell):
    return [p.name for p in cell.get_parameters()]


class Holder(nn.Cell):
    """Attaches what it is given under the name ``mlp``."""

    def __init__(self, inner):
        super().__init__()
        self.mlp = inner


class Named(nn.Cell):
    """A child called like the attribute it will be attached to."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Dense(2, 2)


def test_wrap_then_attach_names_as_plain_mindspore_does(wrap):
    assert names(Holder(wrap(block()))) == names(Holder(block()))


def test_attach_then_wrap_in_place_keeps_the_names(wrap):
    whole = model()
    before = names(whole)
    for index in range(3):
        whole.layers[index] = wrap(whole.layers[index])
    whole.first = wrap(whole.first)
    assert names(whole) == before


def test_a_wrapper_that_replaces_an_attached_cell_does_not_lose_the_path_above_it(wrap):
    whole = nn.SequentialCell(Holder(nn.Dense(2, 2)), nn.Dense(2, 2))
    before = names(whole)
    assert before[0] == "0.mlp.weight"
    whole[0].mlp = wrap(whole[0].mlp)
    assert names(whole) == before


def test_a_child_called_like_the_attribute_is_named_as_plain_mindspore_does(wrap):
    assert names(Holder(wrap(Named()))) == names(Holder(Named())) == ["mlp.mlp.weight", "mlp.mlp.bias"]


def test_a_name_is_kept_at_segment_boundaries_only(wrap):
    inner = nn.Dense(2, 2)
    inner.update_parameters_name("my_mlp.")
    assert names(Holder(wrap(inner))) == ["mlp.weight", "mlp.bias"]
    inner = nn.Dense(2, 2)
    inner.update_parameters_name("my.mlp.")
    assert names(Holder(wrap(inner))) == ["my.mlp.weight", "my.mlp.bias"]


def test_only_the_first_attachment_keeps_a_fuller_name(wrap):
    inner = nn.Dense(2, 2)
    inner.update_parameters_name("0.mlp.")
    wrapper = wrap(inner)
    Holder(wrapper)
    assert names(wrapper) == ["0.mlp.weight", "0.mlp.bias"]
    Holder(wrapper)
    assert names(wrapper) == ["mlp.weight", "mlp.bias"]


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_prefix_gives_the_local_name_and_is_no_attachment(wrap, empty):
    wrapper = wrap(block())
    wrapper.update_parameters_name("a.b.")
    wrapper.update_parameters_name(empty)
    assert names(wrapper) == [n for n, _ in block().parameters_and_names()]
    fresh = nn.Dense(2, 2)
    fresh.update_parameters_name("0.mlp.")
    wrapper = wrap(fresh)
    wrapper.update_parameters_name(empty)
    wrapper.update_parameters_name("mlp.")
    assert names(wrapper) == ["mlp.weight", "mlp.bias"]


def test_without_recursion_the_cells_own_parameters_only_are_renamed(wrap):
    wrapper, plain = wrap(block()), block()
    wrapper.update_parameters_name("p.", recurse=False)
    plain.update_parameters_name("p.", recurse=False)
    assert names(wrapper) == names(plain)
    assert names(wrapper)[0] == "p.gain"


def test_only_a_parameter_whose_name_changed_is_marked_not_initialised(wrap):
    inner = nn.Dense(2, 2)
    inner.update_parameters_name("0.mlp.")
    for p in inner.get_parameters():
        p.is_init = True
    wrapper = wrap(inner)
    wrapper.update_parameters_name("mlp.")
    assert [p.is_init for p in inner.get_parameters()] == [True, True]
    inner.weight.name = "other"
    wrapper.update_parameters_name("mlp.")
    assert [p.is_init for p in inner.get_parameters()] == [False, False]
    for p in inner.get_parameters():
        p.is_init = True
    wrapper.update_parameters_name("mlp.")
    assert [p.is_init for p in inner.get_parameters()] == [True, True]


def test_parameters_replaced_after_wrapping_are_covered(wrap):
    wrapper = wrap(nn.Dense(2, 2))
    wrapper.weight = Parameter(ops.ones((2, 2)), name="anything")
    assert names(Holder(wrapper)) == ["mlp.weight", "mlp.bias"]


def test_moves_in_and_out_of_a_cell_list_name_as_plain_mindspore_does(wrap):
    def moves(make):
        cells = nn.CellList([nn.Dense(2, 2), nn.Dense(2, 2)])
        moved = make(nn.Dense(2, 2))
        cells.append(moved)
        seen = [names(cells)]
        del cells[0]
        seen.append(names(cells))
        cells.insert(0, make(nn.Dense(2, 2)))
        seen.append(names(cells))
        other = nn.CellList([moved])
        seen.append(names(other))
        seen.append(names(Holder(moved)))
        return seen

    assert moves(wrap) == moves(lambda cell: cell)


def test_re_attaching_the_ancestor_names_as_plain_mindspore_does(wrap):
    def nest(make):
        return names(nn.SequentialCell(Holder(Holder(make(Named())))))

    assert nest(wrap) == nest(lambda cell: cell)


def test_a_cell_shared_by_two_places_is_named_as_plain_mindspore_does(wrap):
    def shared(make):
        one = make(nn.Dense(2, 2))
        whole = nn.CellList([Holder(one), Holder(one)])
        return names(whole)

    assert shared(wrap) == shared(lambda cell: cell)


# A wrapped cell that is moved into another model keeps its fuller name and may collide there.


def collision(wrap):
    donor = nn.SequentialCell(Holder(nn.Dense(2, 2)))
    moved = wrap(donor[0].mlp)

    class Other(nn.Cell):
        def __init__(self):
            super().__init__()
            self.body = nn.CellList([Holder(nn.Dense(2, 2)), nn.Dense(2, 2)])
            self.body.update_parameters_name("")
            self.mlp = moved

        def construct(self, x):
            return self.mlp(self.body[0].mlp(x))

    return Other()


def test_the_first_forward_finds_names_that_collide_and_says_what_to_do(wrap):
    whole = collision(wrap)
    assert names(whole).count("0.mlp.weight") == 2
    with pytest.raises(restow.Error, match=r"0\.mlp\.weight.*root\.update_parameters_name"):
        whole.mlp(tensor(1, 2))
    whole.update_parameters_name()
    assert len(set(names(whole))) == len(names(whole))
    assert whole(tensor(1, 2)).shape == (1, 2)


def test_saving_a_wrapped_model_with_colliding_names_is_refused(wrap):
    whole = collision(PassThrough)
    root = wrap(nn.SequentialCell(nn.Dense(2, 2)))
    for p in whole.get_parameters():
        p.name = "same"
    wrapper = PassThrough(nn.SequentialCell(nn.Dense(2, 2), nn.Dense(2, 2)))
    for p in wrapper.get_parameters():
        p.name = "same"
    for save in (wrapper.state_dict, wrapper.parameters_dict):
        with pytest.raises(restow.Error, match="same.*update_parameters_name"):
            save()
    assert root.state_dict()


def test_names_that_do_not_collide_pass_the_check_once(wrap):
    whole = wrap(model())
    whole(tensor(2, 4))
    whole.layers[0].gain.name = "head.weight"
    whole(tensor(2, 4))
    assert rm.unwrap(whole)


def test_a_model_with_wrappers_goes_through_checkpoint_files(wrap, tmp_path):
    whole = model()
    for index in range(3):
        whole.layers[index] = wrap(whole.layers[index])
    ms.save_checkpoint(whole, str(tmp_path / "with.ckpt"))
    ms.save_checkpoint(model(), str(tmp_path / "without.ckpt"))
    with_, without = (ms.load_checkpoint(str(tmp_path / f"{n}.ckpt")) for n in ("with", "without"))
    assert list(with_) == list(without)
    assert ms.load_param_into_net(model(), with_) == ([], [])
    assert ms.load_param_into_net(whole, without) == ([], [])
