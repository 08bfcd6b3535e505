"""`torch.distributed` for the one process that a run is: a group of world size 1, in which every collective is done.

What needs a second process says so; a script that asks whether it is distributed gets PyTorch's answers.
"""

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from cstorch_compat.run.process import RunLocal
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import LazyError, OptionInvalid
from lazytensor.functional.in_place import copy_

NOT_INITIALIZED_MESSAGE = "Default process group has not been initialized, please make sure to call init_process_group."
KNOWN_BACKENDS = ("gloo", "fake", "mpi", "nccl", "ucc", "xccl")
"""Names that PyTorch knows; a CPU build has the first two."""


class DistributedError(LazyError, RuntimeError):
    """More than one process is wanted, or a backend that is not there."""


class ReduceOp(Enum):
    """How values of several processes become one; of one process each gives the value itself."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)
    PREMUL_SUM = 8


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # by which PyTorch names the values, too


class Backend(str):
    """The name of a backend, in lower case."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    backend_list = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi"]

    def __new__(cls, name: str) -> "Backend":
        """The name in lower case."""
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """The group of this one process."""

    def __init__(self, backend: str = "gloo", name: str = "0"):
        self.backend, self.name = backend, name

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1


class Work:
    """A collective that is over."""

    def wait(self, timeout: Any = None) -> bool:
        """True, at once."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True

    def result(self) -> list[Tensor]:
        """Nothing more than what was written in place."""
        return []

    def get_future(self) -> "Work":
        """Itself: there is nothing left to wait for."""
        return self


_default_group: RunLocal[ProcessGroup | None] = RunLocal(lambda: None)


class GroupMember:
    """The groups that have names."""

    NON_GROUP_MEMBER = -100

    @property
    def WORLD(self) -> ProcessGroup | None:
        """The default group; None before it is started."""
        return _default_group.value


group = GroupMember()


def is_available() -> bool:
    """True, as in PyTorch's CPU build."""
    return True


def is_initialized() -> bool:
    """Whether the group was started."""
    return _default_group.value is not None


def is_gloo_available() -> bool:
    """True: what one process needs of it is here."""
    return True


def is_nccl_available() -> bool:
    """False, as in a CPU build."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    """The backend for a device: gloo, for there are CPUs only."""
    return "gloo"


def _read_environment_int(name: str) -> int:
    if name not in os.environ:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but "
            "not set"
        )
    return int(os.environ[name])


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Start the group of this process.

    Raises ValueError where it was started before or the environment lacks what env:// reads, and DistributedError for
    more than one process or a backend that a CPU build has not.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    # PyTorch without a name tries every backend that it has; the CPU has this one.
    chosen = Backend(backend or "gloo")
    if store is None and (init_method is None or init_method.startswith("env:")):
        rank = _read_environment_int("RANK") if rank < 0 else rank
        world_size = _read_environment_int("WORLD_SIZE") if world_size < 0 else world_size
        # Read for their absence alone: nobody is to be met there.
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if name not in os.environ:
                _read_environment_int(name)
    if world_size != 1:
        raise DistributedError(
            f"a run is one process, and a group of {world_size} was asked for",
            where=source.where(),
            hint="Start the script with --nproc_per_node=1, or without torchrun.",
        )
    # With a colon it names one for each kind of device, as in "cpu:gloo,cuda:nccl": that of the CPU is enough.
    if chosen not in ("gloo", "fake") and ":" not in chosen:
        raise DistributedError(
            f"Distributed package doesn't have {chosen.upper()} built in",
            where=source.where(),
            hint='Use backend="gloo", which a CPU has.',
        )
    _default_group.value = ProcessGroup(str(chosen))


def destroy_process_group(group: Any = None) -> None:
    """End the group. Raises AssertionError if there is none."""
    assert is_initialized(), "Invalid process group specified"
    # Another group is only forgotten by its owner: there is nothing to close.
    if not isinstance(group, ProcessGroup) or group is _default_group.value:
        _default_group.value = None


def _require_group() -> ProcessGroup:
    if _default_group.value is None:
        raise ValueError(NOT_INITIALIZED_MESSAGE)
    return _default_group.value


def get_rank(group: Any = None) -> int:
    """0. Raises ValueError before the group was started."""
    return _require_group().rank()


def get_world_size(group: Any = None) -> int:
    """1. Raises ValueError before the group was started."""
    return _require_group().size()


def get_backend(group: Any = None) -> str:
    """The name of the backend. Raises ValueError before the group was started."""
    return _require_group().backend


def get_process_group_ranks(group: Any = None) -> list[int]:
    """[0]."""
    return [get_rank(group)]


def get_global_rank(group: Any, group_rank: int) -> int:
    """The same rank: there is one group."""
    return group_rank


get_group_rank = get_global_rank


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank that torchrun gave, or the fallback. Raises RuntimeError if there is neither."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank.")
    return int(fallback_rank)


def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> ProcessGroup:
    """A group of the same one process."""
    return ProcessGroup(_require_group().backend, "1")


def new_subgroups(*args: Any, **kwargs: Any) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """The one group, and the list of it."""
    own = new_group()
    return own, [own]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Nothing to wait for. Raises ValueError before the group was started."""
    _require_group()
    return Work() if async_op else None


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Nothing to wait for."""
    _require_group()


def _make_identity_collective(name: str) -> Callable[..., Work | None]:
    """A collective that leaves the tensor of the only process as it is."""

    def collective(tensor: Any, *args: Any, async_op: bool = False, **kwargs: Any) -> Work | None:
        _require_group()
        return Work() if async_op else None

    collective.__name__ = collective.__qualname__ = name
    collective.__doc__ = f"`{name}` among one process: the tensor stays as it is."
    return collective


all_reduce, broadcast, reduce = (
    _make_identity_collective("all_reduce"),
    _make_identity_collective("broadcast"),
    _make_identity_collective("reduce"),
)
all_reduce_coalesced = _make_identity_collective("all_reduce_coalesced")


def _copy_into(target: Tensor, value: Tensor) -> None:
    # Collectives are no part of a graph: what they write carries no gradient.
    with grad_mode(False):
        copy_(target, value)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Write the tensor to the one place of the list."""
    _require_group()
    _copy_into(tensor_list[0], tensor)
    return Work() if async_op else None


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensor to the one place of the list."""
    return all_gather(gather_list or [tensor], tensor, group, async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the one member of the list to the tensor."""
    return all_gather([tensor], (scatter_list or [tensor])[0], group, async_op)


def all_gather_into_tensor(output: Tensor, input: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Write the input to the output, in whose shape it may have to be seen."""
    return all_gather([output], input.reshape(output.shape), group, async_op)


reduce_scatter_tensor = all_to_all_single = all_gather_into_tensor


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the one member of the list to the output."""
    return all_gather([output], input_list[0], group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the one member of one list to that of the other."""
    return all_gather(output_tensor_list, input_tensor_list[0], group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the object into the one place of the list."""
    _require_group()
    object_list[0] = obj


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None) -> None:
    """Put the object into the one place of the list."""
    all_gather_object([None] if object_gather_list is None else object_gather_list, obj, group)


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    """The list stays as it is."""
    _require_group()


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any], src: int = 0, group: Any = None
) -> None:
    """Put the one object of the input into the output."""
    all_gather_object(scatter_object_output_list, scatter_object_input_list[0], group)


def _make_refusing_collective(name: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise OptionInvalid(
            f"torch.distributed.{name} needs a second process, and a run is one",
            where=source.where(),
            hint="Leave the exchange out where get_world_size() is 1.",
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raises OptionInvalid: there is nobody else."
    return refused


send, recv, isend, irecv = map(_make_refusing_collective, ("send", "recv", "isend", "irecv"))
batch_isend_irecv = _make_refusing_collective("batch_isend_irecv")
