"""The API of `torch.distributed` for a single process: a group of world size 1.

Collectives complete at once. Functions that need a second process raise an error. Queries return what PyTorch would.
"""

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from cstorch_compat.run.process import RunLocal
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import LazyError, OptionInvalid, ShapeError
from lazytensor.functional.in_place import copy_

NOT_INITIALIZED_MESSAGE = "Default process group has not been initialized, please make sure to call init_process_group."
KNOWN_BACKENDS = ("gloo", "fake", "mpi", "nccl", "ucc", "xccl")
"""The names of backends that PyTorch defines. A CPU build has the first two."""


class DistributedError(LazyError, RuntimeError):
    """The error for a group of more than one process, or for an unavailable backend."""


class ReduceOp(Enum):
    """An enumeration of reduction operations. With one process, each returns the value itself."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)
    PREMUL_SUM = 8


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # an alias that PyTorch has


class Backend(str):
    """The name of a backend in lower case."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    backend_list = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi"]

    def __new__(cls, name: str) -> "Backend":
        """Return `name` in lower case."""
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """A group that consists of this process."""

    def __init__(self, backend: str = "gloo", name: str = "0"):
        self.backend, self.name = backend, name

    def rank(self) -> int:
        """Return 0."""
        return 0

    def size(self) -> int:
        """Return 1."""
        return 1


class Work:
    """The handle of a completed collective."""

    def wait(self, timeout: Any = None) -> bool:
        """Return True at once."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def is_success(self) -> bool:
        """Return True."""
        return True

    def result(self) -> list[Tensor]:
        """Return an empty list. Collectives write their results in place."""
        return []

    def get_future(self) -> "Work":
        """Return the handle itself, which is complete."""
        return self


_default_group: RunLocal[ProcessGroup | None] = RunLocal(lambda: None)
"""The default group of the run, or None before `init_process_group`."""


class GroupMember:
    """The named groups."""

    NON_GROUP_MEMBER = -100

    @property
    def WORLD(self) -> ProcessGroup | None:
        """Return the default group, or None before `init_process_group`."""
        return _default_group.value


group = GroupMember()


def is_available() -> bool:
    """Return True, as PyTorch's CPU build."""
    return True


def is_initialized() -> bool:
    """Return whether `init_process_group` was called."""
    return _default_group.value is not None


def is_gloo_available() -> bool:
    """Return True: everything that one process needs is supported."""
    return True


def is_nccl_available() -> bool:
    """Return False, as a CPU build."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Return whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    """Return "gloo", the backend for CPUs."""
    return "gloo"


def _read_environment_int(name: str) -> int:
    if name not in os.environ:
        raise OptionInvalid(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but "
            "not set",
            where=source.where(),
            hint="Set the variable, for example by starting the script with torchrun.",
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
    """Create the default group of this process.

    Unless `store` or a different `init_method` is given, rank, world size and address are read from the environment.
    Raises ValueError at a second call, and if such a variable is missing. Raises DistributedError for a world size
    other than 1, and for a backend that a CPU build does not have.
    """
    if is_initialized():
        raise OptionInvalid(
            "trying to initialize the default process group twice!",
            where=source.where(),
            hint="Call init_process_group() once.",
        )
    # Without a name PyTorch tries every available backend; the CPU has this one.
    chosen = Backend(backend or "gloo")
    if store is None and (init_method is None or init_method.startswith("env:")):
        rank = _read_environment_int("RANK") if rank < 0 else rank
        world_size = _read_environment_int("WORLD_SIZE") if world_size < 0 else world_size
        # Only check that they exist; no other process is contacted.
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if name not in os.environ:
                _read_environment_int(name)
    if world_size != 1:
        raise DistributedError(
            f"a group of {world_size} processes was requested, but a run is one process",
            where=source.where(),
            hint="Start the script with --nproc_per_node=1 or without torchrun.",
        )
    # A name with a colon gives one backend for each device, as in "cpu:gloo,cuda:nccl".
    if chosen not in ("gloo", "fake") and ":" not in chosen:
        raise DistributedError(
            f"Distributed package doesn't have {chosen.upper()} built in",
            where=source.where(),
            hint='Use backend="gloo", which runs on CPUs.',
        )
    _default_group.value = ProcessGroup(str(chosen))


def destroy_process_group(group: Any = None) -> None:
    """Remove the default group. Another group is ignored. Raises AssertionError if there is no default group."""
    assert is_initialized(), "Invalid process group specified"
    # Another group has no resources to release.
    if not isinstance(group, ProcessGroup) or group is _default_group.value:
        _default_group.value = None


def _require_group() -> ProcessGroup:
    if _default_group.value is None:
        raise OptionInvalid(
            NOT_INITIALIZED_MESSAGE, where=source.where(), hint="Call torch.distributed.init_process_group() first."
        )
    return _default_group.value


def get_rank(group: Any = None) -> int:
    """Return 0. Raises ValueError before `init_process_group`."""
    return _require_group().rank()


def get_world_size(group: Any = None) -> int:
    """Return 1. Raises ValueError before `init_process_group`."""
    return _require_group().size()


def get_backend(group: Any = None) -> str:
    """Return the name of the backend. Raises ValueError before `init_process_group`."""
    return _require_group().backend


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return [0]. Raises ValueError before `init_process_group`."""
    return [get_rank(group)]


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return `group_rank`, because every group has the same process."""
    return group_rank


get_group_rank = get_global_rank


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the variable LOCAL_RANK, which torchrun sets, or else `fallback_rank`.

    Raises RuntimeError if both are missing.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise ShapeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank.",
            where=source.where(),
            hint="Pass fallback_rank=0.",
        )
    return int(fallback_rank)


def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> ProcessGroup:
    """Return a new group of this process. Raises ValueError before `init_process_group`."""
    return ProcessGroup(_require_group().backend, "1")


def new_subgroups(*args: Any, **kwargs: Any) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """Return a new group of this process, and a list that contains it."""
    own = new_group()
    return own, [own]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Return at once: None, or a `Work` handle if `async_op`. Raises ValueError before `init_process_group`."""
    _require_group()
    return Work() if async_op else None


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Return at once. Raises ValueError before `init_process_group`."""
    _require_group()


def _make_identity_collective(name: str) -> Callable[..., Work | None]:
    """Return a collective named `name` that leaves the tensor unchanged, because there is only one process.

    It returns None, or a finished `Work` handle if `async_op`, and raises ValueError before `init_process_group`.
    """

    def collective(tensor: Any, *args: Any, async_op: bool = False, **kwargs: Any) -> Work | None:
        _require_group()
        return Work() if async_op else None

    collective.__name__ = collective.__qualname__ = name
    collective.__doc__ = (
        f"Leave the tensor unchanged, because `{name}` has no effect in a group of one process.\n\n"
        "Return None, or a finished `Work` handle if `async_op` is true. Other arguments are ignored. Raises\n"
        "ValueError before `init_process_group`."
    )
    return collective


all_reduce, broadcast, reduce = (
    _make_identity_collective("all_reduce"),
    _make_identity_collective("broadcast"),
    _make_identity_collective("reduce"),
)
all_reduce_coalesced = _make_identity_collective("all_reduce_coalesced")


def _copy_into(target: Tensor, value: Tensor) -> None:
    # Collectives are not differentiable, so the written values carry no gradient.
    with grad_mode(False):
        copy_(target, value)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy `tensor` into the first element of `tensor_list`, in place. Return None, or a `Work` handle if `async_op`.

    Raises ValueError before `init_process_group`.
    """
    _require_group()
    _copy_into(tensor_list[0], tensor)
    return Work() if async_op else None


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy `tensor` into the only element of `gather_list`. Returns None, or a `Work` handle if `async_op`."""
    return all_gather(gather_list or [tensor], tensor, group, async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the only element of `scatter_list` into `tensor`. Returns None, or a `Work` handle if `async_op`."""
    return all_gather([tensor], (scatter_list or [tensor])[0], group, async_op)


def all_gather_into_tensor(output: Tensor, input: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy `input`, reshaped to the shape of `output`, into `output`.

    Returns None, or a `Work` handle if `async_op`.
    """
    return all_gather([output], input.reshape(output.shape), group, async_op)


reduce_scatter_tensor = all_to_all_single = all_gather_into_tensor


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the only element of `input_list` into `output`. Returns None, or a `Work` handle if `async_op`."""
    return all_gather([output], input_list[0], group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the only element of `input_tensor_list` into that of `output_tensor_list`.

    Returns None, or a `Work` handle if `async_op`.
    """
    return all_gather(output_tensor_list, input_tensor_list[0], group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Store `obj` as the first element of `object_list`. Raises ValueError before `init_process_group`."""
    _require_group()
    object_list[0] = obj


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None) -> None:
    """Store `obj` as the first element of `object_gather_list`; do nothing if that is None.

    Raises ValueError before `init_process_group`.
    """
    all_gather_object([None] if object_gather_list is None else object_gather_list, obj, group)


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    """Leave `object_list` unchanged. Raises ValueError before `init_process_group`."""
    _require_group()


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any], src: int = 0, group: Any = None
) -> None:
    """Store the only element of the input list in the output list."""
    all_gather_object(scatter_object_output_list, scatter_object_input_list[0], group)


def _make_refusing_collective(name: str) -> Callable[..., Any]:
    """Return a function named `name` that raises OptionInvalid, because it needs a second process."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise OptionInvalid(
            f"torch.distributed.{name} needs a second process, but a run is one process",
            where=source.where(),
            hint="Skip the call if get_world_size() is 1.",
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Raise OptionInvalid, because `{name}` needs a second process."
    return refused


send, recv, isend, irecv = map(_make_refusing_collective, ("send", "recv", "isend", "irecv"))
batch_isend_irecv = _make_refusing_collective("batch_isend_irecv")
