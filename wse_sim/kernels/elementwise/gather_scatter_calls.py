"""Kernel calls of operations that read or write by index: elements of lists, and rows of a table."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from lazytensor.errors import LazyError
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from wse_sim.kernels.elementwise.gather_scatter import at_places, embedding, embedding_gradient, put_places
from wse_sim.kernels.mesh_call import Arrays, Cores, MeshCall, attributes, single

NUMBERS = 2**16
"""Number of values of an operand's index, which has 16 bits."""


def read_places(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that gathers elements along the attribute `dim`, by default the last dimension.

    The index may be smaller than the array in the other dimensions; then only the beginning of these is read. Raises
    LazyError if the dimension has more than `NUMBERS` elements and, when it runs, for an index outside it.
    """
    dim, index = attributes(instr).get("dim", -1), reads[1].shape
    lead, extent = other_extents(index, dim), _numbered(reads[0].shape[dim])
    kernel = at_places(cores.rect, *matrix(lead), extent, index[dim], reads[0].dtype.name)

    def give(arrays: Arrays) -> Mapping[str, np.ndarray]:
        x, places = (np.moveaxis(array, dim, -1) for array in arrays)
        return {"x": x[tuple(slice(e) for e in lead)], "places": _within(places, extent)}

    return single(kernel, give, dim=dim)


def write_places(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that puts elements at indices of the last dimension, which has `extent` elements.

    With the attribute `accumulate` they are added; else the last one at an index counts. Other elements are zero.
    Raises LazyError if `extent` exceeds `NUMBERS` and, when it runs, for an index outside 0 to `extent` - 1.
    """
    attrs = attributes(instr)
    (*lead, count), extent = reads[0].shape, _numbered(attrs["extent"])
    kernel = put_places(cores.rect, *matrix(lead), extent, count, reads[0].dtype.name, attrs["accumulate"])
    return single(kernel, lambda arrays: {"g": arrays[0], "places": _within(arrays[1], extent)})


def scatter(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that sets or adds elements at indices along the attribute `dim` of a base array.

    The operands are the base, the indices and the elements. Raises LazyError for a `kind` other than "set" and "add",
    for an index whose other extents differ from the base's, if the dimension has more than `NUMBERS` elements and, when
    it runs, for an index outside it.
    """
    attrs, (base, index) = attributes(instr), (read.shape for read in reads[:2])
    dim, extent = attrs["dim"], _numbered(base[attrs["dim"]])
    lead = other_extents(base, dim)
    if attrs["kind"] not in ("set", "add") or lead != other_extents(index, dim):
        what = f"a scatter of kind {attrs['kind']!r} with index {index} and base {base} has no mesh kernel"
        hint = "Set or add elements, with an index that has the base's extent in all other dimensions."
        raise LazyError(what, hint=hint)
    how = {"accumulate": attrs["kind"] == "add", "has_base": True}
    kernel = put_places(cores.rect, *matrix(lead), extent, index[dim], reads[0].dtype.name, **how)

    def give(arrays: Arrays) -> Mapping[str, np.ndarray]:
        old, places, value = (np.moveaxis(array, dim, -1) for array in arrays)
        return {"base": old, "places": _within(places, extent), "g": value}

    return single(kernel, give, dim=dim)


def read_rows(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that reads rows of a table by one index array for each of its leading dimensions.

    The indices broadcast, and negative ones count from the end. Raises LazyError if other dimensions are indexed, for
    more than `NUMBERS` rows and, when it runs, for an index outside a dimension.
    """
    rows, width = _table(reads[0], attributes(instr)["dims"])
    tokens = prod(np.broadcast_shapes(*(index.shape for index in reads[1:])))
    kernel = embedding(cores.rect, tokens, rows, width, reads[0].dtype.name)
    lead = reads[0].shape[: len(reads) - 1]
    return single(kernel, lambda arrays: {"table": arrays[0], "tokens": _row_numbers(arrays[1:], lead)})


def write_rows(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that adds rows to those of a table, by one index array for each of its leading dimensions.

    The operands are the table, the rows and the indices. The indices broadcast, and negative ones count from the end.
    Raises LazyError for rows that are set instead of added, if other dimensions are indexed, for more than `NUMBERS`
    rows and, when it runs, for an index outside a dimension.
    """
    attrs = attributes(instr)
    if not attrs["accumulate"]:
        raise LazyError("setting rows by index has no mesh kernel", hint="Use torch.where with a mask.")
    rows, width = _table(reads[0], attrs["dims"])
    lead = reads[0].shape[: len(reads) - 2]
    tokens = prod(np.broadcast_shapes(*(index.shape for index in reads[2:])))
    kernel = embedding_gradient(cores.rect, tokens, rows, width, reads[0].dtype.name, has_base=True)

    def give(arrays: Arrays) -> Mapping[str, np.ndarray]:
        return {"base": arrays[0], "dy": arrays[1], "tokens": _row_numbers(arrays[2:], lead)}

    return single(kernel, give)


def matrix(lead: Sequence[int]) -> tuple[int, int]:
    """Return leading dimensions as (rows, columns): the last one is the columns, along x, so both axes of PEs are
    used.
    """
    return prod(lead[:-1]), (lead[-1] if lead else 1)


def other_extents(shape: Sequence[int], dim: int) -> tuple[int, ...]:
    """Return `shape` without dimension `dim`."""
    return tuple(e for d, e in enumerate(shape) if d != dim % len(shape))


def _numbered(extent: int) -> int:
    if extent > NUMBERS:
        what = f"a dimension of {extent:,} elements is indexed, but an index has 16 bits"
        raise LazyError(what, hint=f"Index at most {NUMBERS:,} elements.")
    return extent


def _table(table: Type, dims: tuple[int, ...]) -> tuple[int, int]:
    """Return (rows, width) of a table: the products of the indexed extents `dims` and of the others.

    Raises LazyError unless the indexed dimensions are the leading ones, and for more than `NUMBERS` rows.
    """
    if dims != tuple(range(len(dims))):
        what = f"dimensions {dims} of {table} are indexed, but a mesh kernel indexes leading dimensions"
        raise LazyError(what, hint="Permute the tensor so that the indexed dimensions come first.")
    return _numbered(prod(table.shape[: len(dims)])), prod(table.shape[len(dims) :])


def _row_numbers(indices: Arrays, lead: Sequence[int]) -> np.ndarray:
    """Return the flat row number of each element of the broadcast `indices`, one array for each extent of `lead`.

    Negative indices count from the end. Raises LazyError for an index outside its extent.
    """
    whole = [_within(np.where(i < 0, i + e, i), e) for i, e in zip(indices, lead, strict=True)]
    return np.ravel_multi_index(tuple(np.broadcast_arrays(*whole)), tuple(lead))


def _within(places: np.ndarray, extent: int) -> np.ndarray:
    """Return the array `places` itself. Raises LazyError if it has an index outside 0 to `extent` - 1."""
    if places.size and (places.min() < 0 or places.max() >= extent):
        what = f"indices are {places.min()} to {places.max()}, but the dimension has {extent} elements"
        raise LazyError(what, hint=f"Use indices from 0 to {extent - 1}.")
    return places
