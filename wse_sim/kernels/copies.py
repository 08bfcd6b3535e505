"""Calls of what only puts whole arrays together: every element of the result is moved once, to its place.

As every kernel here, they are given their operands where they need them: what passes between two layouts is not theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from lazytensor.ir.nest import Access, Loop, Nest, Scalar, Store
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from wse_sim.kernels.mesh_call import Arrays, Cores, MeshCall, attributes
from wse_sim.kernels.nest import nest_kernel, nest_operands, nest_results


def concat(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Arrays one behind the other along a dimension."""
    dim, size = attributes(instr)["dim"], sum(read.size for read in reads)
    return _copied(size, reads[0], cores, lambda arrays: np.concatenate(arrays, dim))


def slice_update(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """An array with a part of it replaced by another."""
    names = ("starts", "limits", "strides")
    bounds = [slice(*bound) for bound in zip(*(attributes(instr)[name] for name in names), strict=True)]

    def joined(arrays: Arrays) -> np.ndarray:
        result = np.array(arrays[0])
        result[tuple(bounds)] = arrays[1]
        return result

    return _copied(prod(reads[0].shape), reads[0], cores, joined)


def _copied(size: int, type: Type, cores: Cores, joined: Callable[[Arrays], np.ndarray]) -> MeshCall:
    """`size` elements, moved as a loop over all of them does."""
    flat, each = Type((size,), type.dtype), Access((1,))
    nest = Nest(
        name="copy",
        loops=(Loop("i", size),),
        inputs=(flat,),
        outputs=(flat,),
        reads=(each,),
        writes=(each,),
        body=(Scalar("load", type.dtype, attr=0),),
        stores=(Store(0, 0),),
    )

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        nest_results(nest, cores.rect, results, [writes[0].reshape(-1)])

    return MeshCall(
        nest_kernel(cores.rect, nest),
        lambda arrays, number: nest_operands(nest, cores.rect, [joined(arrays).reshape(-1)]),
        take,
    )
