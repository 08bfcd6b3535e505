"""Descriptions of how a tensor is divided over devices: `torch.distributed.tensor.placement_types`.

Libraries make them when they are imported. They have no effect, because a run is one process.
"""

from typing import Any


class Placement:
    """The base class of placements of a tensor on one dimension of a grid of devices. They are equal by value."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether the tensor is divided along a dimension: along `dim`, if it is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each device has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether the tensor is a reduction over the devices: by `reduce_op`, if it is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))


class Shard(Placement):
    """A placement with one part of the tensor, cut along the dimension `dim`, on each device."""

    def __init__(self, dim: Any):
        self.dim = dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class Replicate(Placement):
    """A placement with the whole tensor on each device."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """A placement with one operand of the reduction `reduce_op` on each device."""

    def __init__(self, reduce_op: str = "sum"):
        self.reduce_op = reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
