"""Convert instructions of a compiled program to kernel calls.

Between two calls the host holds the arrays: each call scatters its operands and gathers its results. Reshapes are done
on the host.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from lazytensor.errors import LazyError
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from wse_sim.kernels.attention.teams import run_block
from wse_sim.kernels.elementwise.gather_scatter_calls import read_places, read_rows, scatter, write_places, write_rows
from wse_sim.kernels.elementwise.random_bits import add_counters, limbs_of, of_limbs, random_uniform, state_limbs
from wse_sim.kernels.kernel import WIDE
from wse_sim.kernels.matmul.matrix_product import Product, arrange
from wse_sim.kernels.mesh_call import Arrays, Cores, MeshCall, attributes, operation, single
from wse_sim.kernels.nest import nest_kernel, nest_operands, nest_results
from wse_sim.kernels.nest_domain import ELEMENT_CYCLES, row_groups
from wse_sim.kernels.rows.softmax import softmax, softmax_cross_entropy
from wse_sim.kernels.windows.window_calls import convolve, find_largest, find_largest_along, pool

SOFTMAX_OPERATIONS = 9
"""Vector operations over a row of a softmax; one of them computes the exponentials."""


def call_of(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` of an instruction on `cores`; `reads` are the types of its operands.

    A nest that adds int64 arrays is computed exactly, as limbs of 16 bits; other nests compute in floating point.
    Raises LazyError for an operation without a mesh kernel.
    """
    if instr.nest:
        return _counters(instr.nest, cores) if _adds_integers(instr.nest) else _nest(instr.nest, cores)
    name = operation(instr)
    if name not in CALLS:
        known = ", ".join(["nest", *sorted(CALLS)])
        raise LazyError(f"{name!r} has no mesh kernel", hint=f"Use one of {known}.")
    return CALLS[name](instr, reads, cores)


def _nest(nest: Nest, cores: Cores) -> MeshCall:
    """Return the `MeshCall` of a loop nest, which computes in floating point.

    Raises LazyError for operations, types and reductions that cores do not have and, when it runs, for integers beyond
    `LARGEST_INTEGER` of `kernels.nest`.
    """
    return MeshCall(
        nest_kernel(cores.rect, nest),
        lambda arrays, number: nest_operands(nest, cores.rect, arrays),
        lambda results, writes, number: nest_results(nest, cores.rect, results, writes),
    )


def _adds_integers(nest: Nest) -> bool:
    """Return True if a nest adds two contiguous int64 arrays element by element, and does nothing else.

    The update of a random generator's state is such a nest.
    """
    whole = all(access == nest.writes[0] for access in nest.reads) and nest.writes[0].strides == (1,)
    ops = [(scalar.op, scalar.dtype.name) for scalar in nest.body]
    return whole and ops == [("load", "int64"), ("load", "int64"), ("add", "int64")]


def _counters(nest: Nest, cores: Cores) -> MeshCall:
    """Return the `MeshCall` of a nest that adds two int64 arrays, modulo 2 ** 64.

    They are added as limbs of 16 bits, since seeds have more bits than float32 holds.
    """

    def give(arrays: Arrays, number: int) -> Mapping[str, np.ndarray]:
        operands = (arrays[nest.body[a].attr] for a in nest.body[2].args)
        return {name: limbs_of(array) for name, array in zip("ab", operands, strict=True)}

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        writes[0].reshape(-1)[:] = of_limbs(results["c"])

    return MeshCall(add_counters(cores.rect, nest.outputs[0].size), give, take)


def _concat(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that concatenates arrays along the attribute `dim`.

    The host makes the result, and the mesh copies it.
    """
    dim, size = attributes(instr)["dim"], sum(read.size for read in reads)
    return _copied(size, reads[0], cores, lambda arrays: np.concatenate(arrays, dim))


def _slice_update(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that replaces a slice of an array by another array.

    The attributes `starts`, `limits` and `strides` give the slice of each dimension. The host makes the result, and the
    mesh copies it.
    """
    names = ("starts", "limits", "strides")
    bounds = [slice(*bound) for bound in zip(*(attributes(instr)[name] for name in names), strict=True)]

    def joined(arrays: Arrays) -> np.ndarray:
        result = np.array(arrays[0])
        result[tuple(bounds)] = arrays[1]
        return result

    return _copied(prod(reads[0].shape), reads[0], cores, joined)


def _copied(size: int, type: Type, cores: Cores, joined: Callable[[Arrays], np.ndarray]) -> MeshCall:
    """Return the `MeshCall` that copies `size` elements of `type`, with one loop over all of them, on the mesh.

    `joined` makes the source from the operands, on the host.
    """
    flat, each = Type((size,), type.dtype), Access((1,))
    nest = Nest(
        name="copy",
        loops=(Loop("i", size),),
        inputs=(flat,),
        outputs=(flat,),
        reads=(each,),
        writes=(each,),
        body=(Scalar("load", type.dtype, attr=0),),
        stores=(NestStore(0, 0),),
    )
    call = _nest(nest, cores)
    return replace(call, give=lambda arrays, number: call.give([joined(arrays)], number))


def _matmul(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` of a matrix product, in the arrangement that `arrange` finds the fastest on these cores.

    Sums are in float32. The attributes `transpose_a` and `transpose_b` exchange the last two dimensions of an operand.
    If the second operand has two dimensions, and the first is not transposed, all leading dimensions of the first
    operand become rows of one product. Otherwise there is a product for each element of the broadcast leading
    dimensions. Raises LazyError for operands of fewer than two dimensions.
    """
    a, b = (read.shape for read in reads[:2])
    flips = [bool(instr.attrs.get(f"transpose_{name}")) for name in "ab"]
    if min(len(a), len(b)) < len("mk"):
        what = f"a mesh kernel cannot multiply operands of shapes {a} and {b}"
        raise LazyError(what, hint="Reshape both operands to at least two dimensions.")
    # Leading dimensions of the first operand become rows of one product.
    if len(b) == len("kn") and not flips[0]:
        a = (prod(a[:-1]), a[-1])
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    (m, k), n = _turned(a[-2:], flips[0]), _turned(b[-2:], flips[1])[1]
    product = Product(batch=prod(lead), m=m, n=n, k=k, dtype=reads[0].dtype.name, sum_dtype=WIDE)
    way = arrange(product, cores.rect.width, cores.rect.height, cores.machine)

    def give(arrays: Arrays, number: int) -> Mapping[str, np.ndarray]:
        shaped = arrays[0].reshape(a), arrays[1]
        # As in NumPy's matmul, leading dimensions broadcast. A transpose only changes how a matrix is scattered.
        turned = (x.swapaxes(-1, -2) if flip else x for x, flip in zip(shaped, flips, strict=True))
        left, right = (np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in turned)
        return way.give(left, right, number)

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        way.take(results, number, writes[0].reshape(product.batch, m, n))

    return MeshCall(way.kernel(cores.rect), give, take, way.rounds)


def _turned(extents: tuple[int, ...], is_turned: bool) -> tuple[int, ...]:
    return extents[::-1] if is_turned else extents


def _softmax_groups(cores: Cores, rows: int, columns: int) -> int:
    # One of the operations over a row is an exponential, which takes at least as long as all others together.
    element_cycles = ELEMENT_CYCLES + cores.machine.special_f32_cycles / SOFTMAX_OPERATIONS
    return row_groups(cores.rect, rows, columns, element_cycles=element_cycles)


def _loss(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` of a softmax cross-entropy with integer labels.

    Its results are the loss of each row, and softmax minus the one-hot label, which is not divided by the number of
    rows. A row with a negative label has a one-hot label of zeros. Raises LazyError, when it runs, for a label that is
    too large.
    """
    *rows, columns = reads[0].shape
    groups = _softmax_groups(cores, prod(rows), columns)
    kernel = softmax_cross_entropy(cores.rect, prod(rows), columns, reads[0].dtype.name, groups)

    def give(arrays: Arrays) -> Mapping[str, np.ndarray]:
        """Return the logits, and labels as one-hot rows; rows of ignored (negative) labels are zero."""
        logits, labels = arrays
        if labels.max(initial=0) >= columns:
            what = f"a label is {labels.max()}, but there are {columns} classes"
            raise LazyError(what, hint=f"Use labels from 0 to {columns - 1}.")
        # Cores have no gather over a row; a row of zeros and a one turns the lookup into a product. The step later
        # discards the loss of ignored labels, which is NaN only on the host.
        chosen = labels.reshape(-1, 1) == np.arange(columns)
        return {"x": logits, "target": chosen.astype(np.float32)}

    return single(kernel, give, names=("loss", "y"))


def _softmax(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    *rows, columns = reads[0].shape
    groups = _softmax_groups(cores, prod(rows), columns)
    kernel = softmax(cores.rect, prod(rows), columns, reads[0].dtype.name, groups)
    return single(kernel, lambda arrays: {"x": arrays[0]})


def _draw(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` of `random_uniform`, with the attributes `type`, `call` and, if given, `seed`.

    The operand is the counter. Without a `seed` it is the seed and the counter.
    """
    attrs = attributes(instr)
    *rows, columns = attrs["type"].shape or (1,)
    kernel = random_uniform(cores.rect, prod(rows), columns, attrs["call"], attrs["type"].dtype.name)
    seed = attrs.get("seed")

    def give(arrays: Arrays) -> Mapping[str, np.ndarray]:
        # Without a `seed` attribute, the operand has the seed and the counter.
        state = arrays[0] if seed is None else np.array([seed, arrays[0].item()])
        return {"state": state_limbs(state)}

    return single(kernel, give)


VIEWS = ("reshape", "view")
"""Operations that only change the shape of an array, which the host does between two calls."""

CALLS: Mapping[str, Callable[[Instr, Sequence[Type], Cores], MeshCall]] = {
    "matmul": _matmul,
    "softmax": _softmax,
    "softmax_cross_entropy": _loss,
    **dict.fromkeys(("at_places", "gather"), read_places),
    "put_places": write_places,
    "random_uniform": _draw,
    "concat": _concat,
    "slice_update": _slice_update,
    "index_get": read_rows,
    "index_put": write_rows,
    **dict.fromkeys(("conv", "conv_input", "conv_weight"), convolve),
    **dict.fromkeys(("window_sum", "window_spread"), pool),
    "window_argmax": find_largest,
    "arg_reduce": find_largest_along,
    **dict.fromkeys(("attention", "attention_gradient"), run_block),
    "scatter": scatter,
}
"""Library kernel or operation -> function (instruction, operand types, cores) that returns its call."""
