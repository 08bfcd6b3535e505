"""Kernel calls of a compiled program as kernels that run: which one, what it is given, what comes of it.

Between two calls the host holds the arrays: each call scatters its operands and gathers its results. Other shapes of
the same elements the host gives on the way.
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
"""Vector operations over a row of a softmax, one of which takes its exponentials."""


def call_of(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """The call of an instruction whose operands have the types `reads`, on `cores.rect`.

    Raises LazyError for what has no kernel that runs.
    """
    if instr.nest:
        return _counters(instr.nest, cores) if _adds_integers(instr.nest) else _nest(instr.nest, cores)
    name = operation(instr)
    if name not in CALLS:
        known = ", ".join(["nest", *sorted(CALLS)])
        raise LazyError(f"no kernel that runs for {name!r}", hint=f"There are {known}.")
    return CALLS[name](instr, reads, cores)


def _nest(nest: Nest, cores: Cores) -> MeshCall:
    return MeshCall(
        nest_kernel(cores.rect, nest),
        lambda arrays, number: nest_operands(nest, cores.rect, arrays),
        lambda results, writes, number: nest_results(nest, cores.rect, results, writes),
    )


def _adds_integers(nest: Nest) -> bool:
    """Whether a nest adds two arrays of int64 element by element, as a step advances the state of its generator."""
    whole = all(access == nest.writes[0] for access in nest.reads) and nest.writes[0].strides == (1,)
    ops = [(scalar.op, scalar.dtype.name) for scalar in nest.body]
    return whole and ops == [("load", "int64"), ("load", "int64"), ("add", "int64")]


def _counters(nest: Nest, cores: Cores) -> MeshCall:
    """Seeds have more bits than float32 holds, so these sums are made of limbs."""

    def give(arrays: Arrays, number: int) -> Mapping[str, np.ndarray]:
        operands = (arrays[nest.body[a].attr] for a in nest.body[2].args)
        return {name: limbs_of(array) for name, array in zip("ab", operands, strict=True)}

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        writes[0].reshape(-1)[:] = of_limbs(results["c"])

    return MeshCall(add_counters(cores.rect, nest.outputs[0].size), give, take)


def _concat(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Arrays one behind the other along a dimension."""
    dim, size = attributes(instr)["dim"], sum(read.size for read in reads)
    return _copied(size, reads[0], cores, lambda arrays: np.concatenate(arrays, dim))


def _slice_update(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
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
        stores=(NestStore(0, 0),),
    )
    call = _nest(nest, cores)
    return replace(call, give=lambda arrays, number: call.give([joined(arrays)], number))


def _matmul(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """The fastest arrangement on these cores, which is what a report prices. Sums are in float32.

    A second operand without leading axes serves all rows of the first; else there is a product for each.
    """
    a, b = (read.shape for read in reads[:2])
    flips = [bool(instr.attrs.get(f"transpose_{name}")) for name in "ab"]
    if min(len(a), len(b)) < len("mk"):
        raise LazyError(f"a product of {a} and {b}", hint="Give both two dimensions at least, by reshape.")
    # Leading axes of the first become rows, and one product does for all.
    if len(b) == len("kn") and not flips[0]:
        a = (prod(a[:-1]), a[-1])
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    (m, k), n = _turned(a[-2:], flips[0]), _turned(b[-2:], flips[1])[1]
    product = Product(batch=prod(lead), m=m, n=n, k=k, dtype=reads[0].dtype.name, sum_dtype=WIDE)
    way = arrange(product, cores.rect.width, cores.rect.height, cores.machine)

    def give(arrays: Arrays, number: int) -> Mapping[str, np.ndarray]:
        shaped = arrays[0].reshape(a), arrays[1]
        # As NumPy's matmul: leading axes are broadcast. How a matrix lies is a matter of scattering it.
        turned = (x.swapaxes(-1, -2) if flip else x for x, flip in zip(shaped, flips, strict=True))
        left, right = (np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in turned)
        return way.give(left, right, number)

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        way.take(results, number, writes[0].reshape(product.batch, m, n))

    return MeshCall(way.kernel(cores.rect), give, take, way.rounds)


def _turned(extents: tuple[int, ...], is_turned: bool) -> tuple[int, ...]:
    return extents[::-1] if is_turned else extents


def _softmax_groups(cores: Cores, rows: int, columns: int) -> int:
    # One of the operations over a row is an exponential, which takes as long as all others together, and longer.
    element_cycles = ELEMENT_CYCLES + cores.machine.special_f32_cycles / SOFTMAX_OPERATIONS
    return row_groups(cores.rect, rows, columns, element_cycles=element_cycles)


def _loss(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    *rows, columns = reads[0].shape
    groups = _softmax_groups(cores, prod(rows), columns)
    kernel = softmax_cross_entropy(cores.rect, prod(rows), columns, reads[0].dtype.name, groups)

    def give(arrays: Arrays) -> Mapping[str, np.ndarray]:
        """Labels as rows of zeros and a one; of zeros alone where the label is one to be ignored."""
        logits, labels = arrays
        if labels.max(initial=0) >= columns:
            raise LazyError(f"a label of {labels.max()} for {columns} classes", hint=f"Use 0 to {columns - 1}.")
        # Cores have no gather over a row; a row of zeros and a one turns the lookup into a product. What is ignored is
        # chosen away by the step afterwards, whatever it is; only the host has NaN there.
        chosen = labels.reshape(-1, 1) == np.arange(columns)
        return {"x": logits, "target": chosen.astype(np.float32)}

    return single(kernel, give, names=("loss", "y"))


def _softmax(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    *rows, columns = reads[0].shape
    groups = _softmax_groups(cores, prod(rows), columns)
    kernel = softmax(cores.rect, prod(rows), columns, reads[0].dtype.name, groups)
    return single(kernel, lambda arrays: {"x": arrays[0]})


def _draw(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    attrs = attributes(instr)
    *rows, columns = attrs["type"].shape or (1,)
    kernel = random_uniform(cores.rect, prod(rows), columns, attrs["call"], attrs["type"].dtype.name)
    seed = attrs.get("seed")

    def give(arrays: Arrays) -> Mapping[str, np.ndarray]:
        # A counter alone goes with a seed that does not change.
        state = arrays[0] if seed is None else np.array([seed, arrays[0].item()])
        return {"state": state_limbs(state)}

    return single(kernel, give)


VIEWS = ("reshape", "view")
"""Operations that only give an array another shape, which the host does between two calls."""

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
"""Kernel of the library, or operation -> its call."""
