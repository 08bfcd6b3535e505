"""Models of dense and sparse matrix products."""

from collections.abc import Callable

from wse_sim.kernels.matmul import gemm
from wse_sim.kernels.sparse import sparse
from wse_sim.layout import ceil_div
from wse_sim.phase import Phase
from wse_sim.validation.row_model import GRID, RowCase, RowModel, one_of, positive_number, whole_number


def _sparse_tile(case: RowCase) -> tuple[int, int]:
    """Return the most rows and columns of the matrix A on one PE.

    A has N rows over the rows of the grid and K columns over its columns, rounded up.
    """
    width, height = case["grid"]
    return ceil_div(case["N"], height), ceil_div(case["K"], width)


def _make_compressed_model(axis: int) -> Callable[[RowCase], float]:
    """Return a model of the cycles with compressed rows (`axis` 0) or columns (1).

    Every PE has the average number of nonzeros.
    """

    def compressed_cycles(case: RowCase) -> float:
        tile = _sparse_tile(case)
        # Nonzeros are distributed uniformly at random, so the average PE represents all.
        elements = tile[0] * tile[1] * case["density_pct"] / 100
        return case.cycles(sparse.spmm_loop(case.rect(), elements, tile[axis], case["M"]))

    return compressed_cycles


def _make_padded_model(has_lines: bool) -> Callable[[RowCase], float]:
    """Return a model of the cycles if every PE processes the number of elements of the fullest one.

    This number follows from the operations that the row reports. `has_lines` adds a loop over the rows on a PE.
    """

    def padded_cycles(case: RowCase) -> float:
        rect, (rows, _) = case.rect(), _sparse_tile(case)
        # The reported operations include padding: two for each element and column of B.
        elements = case["flops"] / (2 * case["M"] * rect.area)
        return case.cycles(sparse.spmm_loop(rect, elements, rows if has_lines else 0, case["M"]))

    return padded_cycles


def dense_tile_cycles(case: RowCase) -> float:
    """Return the cycles of the dense product that sparse ones are compared with, over a full tile of A on each PE."""
    rows, columns = _sparse_tile(case)
    return case.cycles(sparse.dense_loop(case.rect(), rows * columns, case["M"], case.machine))


def _product_phase(case: RowCase) -> Phase:
    """Return the phase of a square float32 product, without padding against bank conflicts."""
    rect, n = case.square(), case["n"]
    tile = gemm.Tile.of(n, n, n, rect.width, 4)
    algorithms = {"summa": gemm.summa, "cannon": gemm.cannon, "two_hop": gemm.two_hop}
    return algorithms[case["algorithm"]](rect, tile, case.machine, case.machine.conflict_slowdown)


def product_tflops(case: RowCase) -> float:
    """Return the TFLOP/s of a square product in float32."""
    return float(2 * case["n"] ** 3 / case.seconds(_product_phase(case)) / 1e12)


def indexed_product_cycles(case: RowCase) -> float:
    """Return the cycles of the products of all steps of a SUMMA whose loop reads B by an index."""
    rect = case.square()
    tile = gemm.Tile(case["m"], case["k"], case["n"], 4)
    return case.cycles(gemm.indexed_products(rect, tile, case.machine))


_SPARSE_PARAMS = {
    "grid": GRID,
    "N": whole_number("rows of A"),
    "K": whole_number("columns of A"),
    "M": whole_number("columns of B"),
    "density_pct": positive_number("share of nonzeros of A in percent"),
}
_PADDED_PARAMS = {**_SPARSE_PARAMS, "flops": positive_number("operations of all PEs, with padding")}
_CYCLES = "cycles (avg over PEs)"

MODELS = {
    "spmm_dense": RowModel(
        "the local part of A[N, K] x B[K, M] in float32 over full tiles",
        {name: _SPARSE_PARAMS[name] for name in ("grid", "N", "K", "M")},
        {_CYCLES: dense_tile_cycles},
    ),
    "spmm_csr": RowModel("the same over compressed rows", _SPARSE_PARAMS, {_CYCLES: _make_compressed_model(0)}),
    "spmm_csc": RowModel("the same over compressed columns", _SPARSE_PARAMS, {_CYCLES: _make_compressed_model(1)}),
    "spmm_coo": RowModel(
        "the same over a padded list of elements", _PADDED_PARAMS, {_CYCLES: _make_padded_model(False)}
    ),
    "spmm_ellpack": RowModel("the same over padded rows", _PADDED_PARAMS, {_CYCLES: _make_padded_model(True)}),
    "product": RowModel(
        "a product of two n x n matrices in float32 on a square grid",
        {
            "grid": GRID,
            "n": whole_number("rows and columns of each matrix"),
            "algorithm": one_of("algorithm", "summa", "cannon", "two_hop", default="summa"),
        },
        {
            "TFLOP/s": product_tflops,
            "cycles": lambda case: case.cycles(_product_phase(case)),
            "us": lambda case: 1e6 * case.seconds(_product_phase(case)),
        },
    ),
    "indexed_product": RowModel(
        "the products of SUMMA on a square grid, with a loop that reads B by an index",
        {
            "grid": GRID,
            "m": whole_number("rows of a tile of A"),
            "k": whole_number("columns of a tile of A"),
            "n": whole_number("columns of a tile of B"),
        },
        {"cycles": indexed_product_cycles},
    ),
}
