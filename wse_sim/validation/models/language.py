"""Models of language models with resident weights and of their matrix-vector products, at WaferLLM's clock."""

from dataclasses import replace

from wse_sim.kernels.attention.resident_transformer import TRANSFORMERS, TransformerExtents, decode_token, prefill
from wse_sim.kernels.collective import centred_all_reduce, chain_all_reduce
from wse_sim.kernels.matmul.gemv import Sum, gemv
from wse_sim.layout import Rect
from wse_sim.machine import WSE2
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

# WaferLLM converts cycles at 1.1 GHz, and the vendor's examples at 0.85 GHz. Use the clock of each author.
FAST_WSE2 = replace(WSE2, clock_hz=1.1e9)
_GRID_SIDES = range(360, 721, 60)  # Side lengths of the meshes in WaferLLM's tables.


def _square_rect(pes: int) -> Rect:
    return Rect(0, 0, pes, pes)


def _transformer_extents(row: MeasuredRow) -> TransformerExtents:
    return next(model for name, model in TRANSFORMERS.items() if name in row.workload)


def _decode_seconds(model: TransformerExtents, pes: int, context: int, cycles: CycleReading) -> float:
    return cycles(decode_token(model, _square_rect(pes), context, FAST_WSE2), FAST_WSE2) / FAST_WSE2.clock_hz


def _prefill_seconds(model: TransformerExtents, pes: int, tokens: int, cycles: CycleReading) -> float:
    return cycles(prefill(model, _square_rect(pes), tokens, FAST_WSE2), FAST_WSE2) / FAST_WSE2.clock_hz


def decode_rate(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the tokens per second of decoding: tokens are generated one after the other."""
    return 1 / _decode_seconds(_transformer_extents(row), row.params["grid"][0], row.params["ctx"], cycles)


def prefill_rate(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the tokens per second of prefill: all tokens of the prompt are processed at once.

    The mesh is square with the side that the row gives; the model is the one that its workload names.
    """
    tokens: int = row.params["seq"]
    return tokens / _prefill_seconds(_transformer_extents(row), row.params["grid"][0], tokens, cycles)


def request_rate(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the generated tokens over the seconds of a whole request, prefill and decoding.

    On average half of the generated tokens belong to the context.
    """
    p, model = row.params, _transformer_extents(row)
    tokens: int = p["out"]
    first = _prefill_seconds(model, p["prefill_grid"], p["inp"], cycles)
    each = _decode_seconds(model, p["decode_grid"], p["inp"] + tokens // 2, cycles)
    return tokens / (first + tokens * each)


def _gemv_cycles(n: int, pes: int, cycles: CycleReading, all_reduce: Sum = centred_all_reduce) -> float:
    return cycles(gemv(_square_rect(pes), n, n, 2, FAST_WSE2, all_reduce), FAST_WSE2)


def _best_grid_side(n: int, cycles: CycleReading) -> int:
    return min(_GRID_SIDES, key=lambda pes: _gemv_cycles(n, pes, cycles))


def gemv_milliseconds(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the milliseconds of a product of a matrix and a vector, on the fastest of the published meshes.

    The matrix has n x n elements of 16 bits.
    """
    n = row.params["n"]
    return 1e3 * _gemv_cycles(n, _best_grid_side(n, cycles), cycles) / FAST_WSE2.clock_hz


def gemv_speedup(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the speed-up over a reduction along the whole line, for the largest published product (16,384).

    Both are on the mesh that is fastest for the faster reduction.
    """
    pes = _best_grid_side(16384, cycles)
    slow = _gemv_cycles(16384, pes, cycles, chain_all_reduce)
    return slow / _gemv_cycles(16384, pes, cycles)


MODELS = {
    "wllm_decode": decode_rate,
    "wllm_prefill": prefill_rate,
    "wllm_tpr": request_rate,
    "wllm_gemv": gemv_milliseconds,
    "wllm_gemv_vs_vendor": gemv_speedup,
}
