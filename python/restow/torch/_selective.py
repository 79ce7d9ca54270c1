"""Selective recompute: which operators of a checkpointed function are not run again."""

import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional, Union

import torch
from torch.utils import checkpoint as torch_checkpoint

from restow.errors import Error, InputError
from restow.torch import _steering
from restow.torch._load import native
from restow.torch._policy import CheckpointPolicy
from restow.torch._regions import HostPool, _place

OperatorPolicy = Callable[..., Any]
Operators = Sequence[Any]

_RECOMPUTE, _SAVE, _SWAP = 0, 1, 2

class SelectiveContext:
    """The first argument of a policy."""

    is_recompute = False


def _name_of(operator: Any, what: str) -> str:
    """The name of an operator; text is a name already."""
    if isinstance(operator, torch._ops.OpOverload):
        name = operator._schema.name
        overload = operator._schema.overload_name
        return f"{name}.{overload}" if overload else name
    if isinstance(operator, torch._ops.OpOverloadPacket):
        raise InputError(
            f"{what}: {operator} has several overloads; name one, like {operator}.default"
        )
    if isinstance(operator, str):
        return operator
    raise TypeError(f"{what}: {operator!r} is not an operator")


def names_of(
    save: Operators = (), recompute: Operators = (), swap: Operators = ()
) -> "native.OperatorNames":
    """What is done with which operator; those not named are run again. The last list wins."""
    lists = (("save", save, _SAVE), ("swap", swap, _SWAP), ("recompute", recompute, _RECOMPUTE))
    return native.OperatorNames(
        [(_name_of(one, what), choice) for what, operators, choice in lists for one in operators]
    )


class _Forward:
    """Around the forward: operators come to the selection from here on."""

    def __init__(
        self,
        names: Optional["native.OperatorNames"],
        policy: Optional[OperatorPolicy],
        group_swap: bool,
        cpu_pool: Optional[HostPool],
        tier: Optional[str],
    ) -> None:
        self._what = (names, policy)
        self._file = _place(tier)
        self._copies = (group_swap, None if cpu_pool is None else cpu_pool._native)

    def __enter__(self) -> "_Forward":
        group = _steering.current()
        native.select(
            *self._what, not group.alone, self._file, group.core, group.manual, *self._copies
        )
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        native.end_select()


class _Again:
    """Around the rerun, which remembers the selection of its forward."""

    def __enter__(self) -> "_Again":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        return None


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Union[OperatorPolicy, Operators, "native.OperatorNames"],
    allow_cache_entry_mutation: bool = False,
    group_swap: bool = False,
    cpu_pool: Optional[HostPool] = None,
    tier: Literal["host", "file", None] = None,
) -> tuple[_Forward, _Again]:
    """The pair of contexts for ``checkpoint(..., context_fn=)``: some operators are not run again.

    ``policy_fn_or_list``: a policy ``policy_fn(ctx, op, *args, **kwargs)``, asked once for each
    operator of the forward that could be kept, or a list of operators, names (``"aten::mm"``) and
    named sets (``"attention"``, ``"matmul"``, ``"norm"``, ``"communication"``; ``"every second
    matmul"``, the first included) to keep. What is kept
    may be swapped (MUST_SWAP): to the host or to files as ``tier`` says, and with the active group.
    Views and operators that write into their arguments are always run again; what was kept of a
    storage that is written later, too, so that ``allow_cache_entry_mutation`` changes nothing.
    """
    copies = (group_swap, cpu_pool, tier)
    if isinstance(policy_fn_or_list, native.OperatorNames):
        return _Forward(policy_fn_or_list, None, *copies), _Again()
    if callable(policy_fn_or_list):
        return _Forward(None, policy_fn_or_list, *copies), _Again()
    if isinstance(policy_fn_or_list, (list, tuple)):
        return _Forward(names_of(policy_fn_or_list), None, *copies), _Again()
    raise TypeError(
        "policy_fn_or_list must be a policy or a list of operators, not "
        f"{type(policy_fn_or_list).__name__}"
    )


def ignore_sac_ops(ops: Sequence[Any]) -> None:
    """Operators that no policy is asked for, in the whole process; None entries are skipped."""
    native.ignore_operators([_name_of(one, "ignore_sac_ops") for one in ops if one is not None])


def _operator_of(name: str, overload: str) -> Any:
    namespace, operator = name.split("::")
    packet = getattr(getattr(torch.ops, namespace), operator)
    return getattr(packet, overload or "default")


def _refuse(answer: Any) -> None:
    raise Error(
        f"a policy of selective recompute answered {answer!r}; it must answer a member of "
        "CheckpointPolicy"
    )


def _answers() -> list[tuple[Any, int]]:
    pairs: list[tuple[Any, int]] = []
    by_name = {
        "MUST_SAVE": _SAVE,
        "PREFER_SAVE": _SAVE,
        "MUST_RECOMPUTE": _RECOMPUTE,
        "PREFER_RECOMPUTE": _RECOMPUTE,
        "MUST_SWAP": _SWAP,
        "MUST_CPU_OFFLOAD": _SWAP,
        "PREFER_CPU_OFFLOAD": _SWAP,
    }
    for members in (CheckpointPolicy, torch_checkpoint.CheckpointPolicy):
        pairs += [(member, by_name[member.name]) for member in members if member.name in by_name]
    return pairs


native.set_operator_names(_operator_of, SelectiveContext(), _refuse, _answers())
