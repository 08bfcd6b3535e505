"""Check that a kernel has equal results in all readings, and that its closed form predicts its cycles."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError, ShapeError
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import simulate_phase
from wse_sim.isa.packing import decode_bits, round_values
from wse_sim.kernels.kernel import INDEX, MeshKernel, Placed, tiles_of, verified_memory
from wse_sim.machine import WSE2, Machine
from wse_sim.reference.phase_reference import apply

CLOSE: Mapping[str, tuple[float, float]] = {
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "uint16": (0, 0),
}
"""Element type -> (relative, absolute) tolerance; those of `torch.testing.assert_close`."""
CYCLES_TOLERANCE = 0.10
"""Relative error up to which a closed form agrees; those of the package's kernels are tested with it."""

CYCLES = "cycles"

ExpectedFunction = Callable[..., Any]
"""A function of the operands, by their names, that returns the only result, or a mapping of all results."""


@dataclass(frozen=True)
class Agreement:
    """The comparison of one result, or of the cycles, in two readings.

    - `compared`: the two readings
    - `what`: name of the result, or `CYCLES`
    - `difference`: largest absolute difference of a result, or relative error of the closed form
    - `tolerance`: what is allowed, in words
    - `failure`: which reading differs, where and by how much; empty if the readings agree
    """

    compared: str
    what: str
    difference: float
    tolerance: str
    failure: str = ""

    @property
    def difference_text(self) -> str:
        """The difference as text: a percentage for cycles."""
        return f"{self.difference:+.1%}" if self.what == CYCLES else f"{self.difference:.2g}"


@dataclass(frozen=True)
class KernelCheck:
    """The result of `check_kernel`: the comparisons `rows`, and the `closed` and `simulated` cycles on `machine`.

    >>> row = Agreement("the closed form and the cycle engine", "cycles", 0.0, "10%")
    >>> print(KernelCheck("wse2", 870, 870, (row,)).text().splitlines()[-1])
    cycles on wse2: 870 by the closed form, 870 simulated
    """

    machine: str
    closed: int
    simulated: int
    rows: tuple[Agreement, ...]

    @property
    def agrees(self) -> bool:
        """True if all readings agree."""
        return not any(row.failure for row in self.rows)

    def text(self) -> str:
        """Return a table of all comparisons, and a line for each that failed."""
        shown = [(r.what, r.compared, r.difference_text, r.tolerance, "no" if r.failure else "yes") for r in self.rows]
        cycles = f"cycles on {self.machine}: {self.closed:,} by the closed form, {self.simulated:,} simulated"
        failures = [row.failure for row in self.rows if row.failure]
        return "\n".join([Table(_COLUMNS, shown).text(), cycles, *failures])

    def expect_agreement(self) -> "KernelCheck":
        """Return the check itself. Raises LazyError with the failures if the readings do not agree."""
        failures = [row.failure for row in self.rows if row.failure]
        if failures:
            raise LazyError("; ".join(failures), hint="Print text() of the check for all comparisons.")
        return self


def check_kernel(
    kernel: MeshKernel,
    expected: ExpectedFunction,
    values: Mapping[str, Any] | None = None,
    machine: Machine | str = WSE2,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    cycles_tolerance: float = CYCLES_TOLERANCE,
) -> KernelCheck:
    """Run a kernel in all three readings and compare them.

    - The results of the NumPy reference with those of `expected`, within |difference| <= atol + rtol * |expected|. By
      default the tolerances are those of `torch.testing.assert_close` for the type of the result.
    - The results of the cycle engine with those of the reference, bit for bit except for NaN and the sign of zero.
    - The cycles of the closed form with those of the engine, within the relative error `cycles_tolerance`.

    A result that is replicated is compared on every PE.

    Args:
        kernel: the kernel, with operands and results.
        expected: a function that takes arrays by the names of the operands, which are `values` rounded to the
            operands' types, as float32 (indices as uint16). It returns the array of the only result, or a mapping from
            the names of all results to arrays. Their shapes are [rows, columns x depth].
        values: name of each operand -> its elements. By default they are random numbers of a normal distribution, the
            same in each call, of shape [rows, columns x depth].
        machine: a machine or its name.

    Raises LazyError if the kernel has no results, if an operand of indices has no values, and for operands and phases
    that `as_data` refuses; ShapeError for an expected result of another shape; LazyError for a run of the engine
    that does not finish. A difference is not an error: see `KernelCheck.agrees` and `KernelCheck.text`.

    >>> from wse_sim import Allocator, Broadcast, MeshKernel, Rect, check_kernel
    >>> memory, rect = Allocator(), Rect(0, 0, 4, 1)
    >>> x, y = memory.place("x", rect, 1, 4, "float32"), memory.place("y", rect, 1, 4, "float32")
    >>> kernel = MeshKernel(Broadcast(rect, "x", 1, take=x.address, put=y.address), (x,), (y,), memory.words)
    >>> check_kernel(kernel, lambda x: x[:, [0, 0, 0, 0]]).agrees
    True
    >>> print(check_kernel(kernel, lambda x: 0 * x).rows[0].failure.split(",")[0])
    the NumPy reference differs from `expected` in 4 of 4 elements of y
    """
    machine = Machine.of(machine)
    if not kernel.results:
        raise LazyError("the kernel has no results to compare", hint="Give MeshKernel its results.")
    given = _random_values(kernel) if values is None else values
    given = {name: np.asarray(value) for name, value in given.items()}
    memory = verified_memory(kernel, given, machine)
    reference = apply(kernel.phase, memory, machine)
    done = simulate_phase(kernel.phase, machine, memory).expect_finished()
    closed = cost(kernel.phase, machine).cycles
    wanted = _expected_results(kernel, expected, given)
    rows = [
        *(_compare_with_expected(placed, reference, wanted[placed.name], rtol, atol) for placed in kernel.results),
        *(_compare_with_reference(placed, done.memory, reference) for placed in kernel.results),
        _compare_cycles(closed, done.cycles, cycles_tolerance),
    ]
    return KernelCheck(machine.name, closed, done.cycles, tuple(rows))


def _random_values(kernel: MeshKernel) -> dict[str, np.ndarray]:
    """Return random elements for every operand that the caller provides. Raises LazyError for indices."""
    random, values = np.random.default_rng(0), {}
    for placed in kernel.operands:
        if placed.is_given and placed.dtype == INDEX:
            raise LazyError(f"operand {placed.name!r} has indices, which cannot be random", hint="Give values.")
        if placed.is_given:
            values[placed.name] = random.standard_normal((placed.rows, placed.columns * placed.depth), np.float32)
    return values


def _expected_results(
    kernel: MeshKernel, expected: ExpectedFunction, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return what `expected` computes, as an array [rows, columns x depth] for each result.

    It gets the operands as the kernel does, rounded to their types. Raises LazyError for other names than those of the
    results, and ShapeError for another shape.
    """
    names = [placed.name for placed in kernel.results]
    dtypes = {placed.name: placed.dtype for placed in kernel.operands}
    found = expected(**{name: _rounded_operand(value, dtypes[name]) for name, value in values.items()})
    if not isinstance(found, Mapping):
        found = {names[0]: found} if len(names) == 1 else {}
    if set(found) != set(names):
        what = f"the expected results are {sorted(found)}, but the kernel has {', '.join(sorted(names))}"
        raise LazyError(what, hint="Return a mapping with an array for each result.")
    arrays = {}
    for placed in kernel.results:
        array, shape = np.asarray(found[placed.name]), (placed.rows, placed.columns * placed.depth)
        if array.shape != shape:
            what = f"the expected {placed.name!r} has shape {array.shape}, but the kernel's has {shape}"
            raise ShapeError(what, hint="Return an array of the kernel's shape.")
        arrays[placed.name] = array
    return arrays


def _rounded_operand(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return `values` rounded to `dtype`: float32, or uint16 for indices, so that NumPy takes them as such."""
    return values.astype(np.uint16) if dtype == INDEX else round_values(values.astype(np.float32), dtype)


def _compare_with_expected(
    placed: Placed, memory: np.ndarray, wanted: np.ndarray, rtol: float | None, atol: float | None
) -> Agreement:
    """Compare the tiles of a result in the memories of the reference with the global array `wanted`."""
    relative, absolute = CLOSE[placed.dtype]
    rtol, atol = relative if rtol is None else rtol, absolute if atol is None else atol
    blocks = wanted.reshape(placed.rows, placed.columns, placed.depth)
    tiles = [(x, y, found, blocks[np.ix_(*placed.tile_of(x, y))]) for x, y, found in _values_of(placed, memory)]
    tolerance = f"{atol:g} + {rtol:g} relative"
    return _compare_tiles(placed, ("the NumPy reference", "`expected`"), tiles, tolerance, rtol, atol)


def _compare_with_reference(placed: Placed, memory: np.ndarray, reference: np.ndarray) -> Agreement:
    """Compare the tiles of a result in the memories of the engine with those of the reference."""
    pairs = zip(_values_of(placed, memory), _values_of(placed, reference), strict=True)
    tiles = [(x, y, found, wanted) for (x, y, found), (_, _, wanted) in pairs]
    return _compare_tiles(placed, ("the cycle engine", "the NumPy reference"), tiles, "equal")


TilePairs = Sequence[tuple[int, int, np.ndarray, np.ndarray]]
"""(x, y) of a PE in the rectangle of a result, and its tile [rows, columns, depth] in two readings."""


def _values_of(placed: Placed, memory: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield (x, y, values [rows, columns, depth] without padding) for every PE of a result."""
    for x, y, tile in tiles_of(placed, np.ascontiguousarray(memory)):
        rows, columns = placed.tile_of(x, y)
        yield x, y, decode_bits(tile[: len(rows), : len(columns)], placed.dtype)


def _compare_tiles(
    placed: Placed, names: tuple[str, str], tiles: TilePairs, tolerance: str, rtol: float = 0, atol: float = 0
) -> Agreement:
    """Compare the tiles of a result in the readings `names`; `tolerance` is the text for `rtol` and `atol`."""
    differences = [_absolute_difference(found, wanted) for _, _, found, wanted in tiles]
    # The part of each difference that is outside of the tolerance counts as wrong, the rest as 0.
    wrong = [
        np.where(d > _bound(wanted, rtol, atol), d, 0.0)
        for d, (_, _, _, wanted) in zip(differences, tiles, strict=True)
    ]
    failure, count = "", sum(int((d > 0).sum()) for d in wrong)
    if count:
        worst = max(range(len(tiles)), key=lambda i: float(wrong[i].max(initial=0)))
        elements = sum(d.size for d in wrong)
        element = _describe_element(placed, tiles[worst], wrong[worst])
        failure = (
            f"{names[0]} differs from {names[1]} in {count:,} of {elements:,} elements of {placed.name}, "
            f"most at {element}"
        )
    largest = max((float(d.max(initial=0)) for d in differences), default=0.0)
    return Agreement(f"{names[0]} and {names[1]}", placed.name, largest, tolerance, failure)


def _absolute_difference(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return |found - wanted|: 0 for two equal infinities or two NaN, and infinity if only one value is NaN."""
    with np.errstate(invalid="ignore"):
        difference = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    is_equal = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return np.where(is_equal, 0.0, np.where(np.isnan(difference), np.inf, difference))


def _bound(wanted: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Return the largest allowed difference of each element; 0 where `wanted` is not finite."""
    return np.where(np.isfinite(wanted), atol + rtol * np.nan_to_num(np.abs(wanted), posinf=0.0), 0.0)


def _describe_element(placed: Placed, tile: tuple[int, int, np.ndarray, np.ndarray], wrong: np.ndarray) -> str:
    """Return the place and both values of the element of a tile with the largest number in `wrong`."""
    x, y, found, wanted = tile
    at = np.unravel_index(int(wrong.argmax()), wrong.shape)
    row, column, depth = (int(i) for i in at)
    rows, columns = placed.tile_of(x, y)
    local, whole = (f"[{r}, {c * placed.depth + depth}]" for r, c in ((row, column), (rows[row], columns[column])))
    core = f"PE ({placed.rect.x + x}, {placed.rect.y + y})"
    values = f"{found[at]:g} instead of {wanted[at]:g}, off by {wrong[at]:.3g}"
    return f"{core}, element {local} of its tile, {whole} of the matrix: {values}"


def _compare_cycles(closed: int, simulated: int, tolerance: float) -> Agreement:
    """Compare the cycles of the closed form with those of the engine; without any cycles they agree."""
    error = closed / simulated - 1 if simulated else float(closed > 0)
    failure = ""
    if abs(error) > tolerance:
        failure = f"the closed form has {closed:,} cycles instead of the {simulated:,} of the engine, {error:+.1%}"
    return Agreement("the closed form and the cycle engine", CYCLES, error, f"{tolerance:.0%}", failure)


_COLUMNS = (
    *(
        Column("result", is_words=True),
        Column("compared", is_words=True),
        Column("largest difference"),
    ),
    *(Column("tolerance", is_words=True), Column("agrees", is_words=True)),
)
