"""Models of language models with resident weights and of their matrix-vector products, as WaferLLM runs them."""

from wse_sim.kernels.collective import centred_all_reduce, chain_all_reduce
from wse_sim.kernels.matmul.gemv import Sum, gemv
from wse_sim.layout import Rect
from wse_sim.serving.decoder import PRESETS
from wse_sim.serving.layer_phases import LayerMesh, decode_token, prefill
from wse_sim.validation.row_model import GRID, RowCase, RowModel, extents, one_of, whole_number

_GRID_SIDES = range(360, 721, 60)  # Side lengths of the meshes in WaferLLM's tables.


def _layer_mesh(case: RowCase, rect: Rect) -> LayerMesh:
    return LayerMesh(PRESETS[case["model"]][0], rect.width, rect.height, case.machine)


def _decode_seconds(case: RowCase, rect: Rect, context: int) -> float:
    return case.seconds(decode_token(_layer_mesh(case, rect), context))


def _prefill_seconds(case: RowCase, rect: Rect, tokens: int) -> float:
    return case.seconds(prefill(_layer_mesh(case, rect), tokens))


def decode_rate(case: RowCase) -> float:
    """Return the tokens per second of decoding: tokens are generated one after the other."""
    return 1 / _decode_seconds(case, case.square(), case["context"])


def prefill_rate(case: RowCase) -> float:
    """Return the tokens per second of prefill: all tokens of the prompt are processed at once."""
    tokens: int = case["tokens"]
    return tokens / _prefill_seconds(case, case.square(), tokens)


def request_rate(case: RowCase) -> float:
    """Return the generated tokens over the seconds of a whole request, prefill and decoding.

    On average half of the generated tokens belong to the context.
    """
    prompt, tokens = case["prompt_tokens"], case["generated_tokens"]
    first = _prefill_seconds(case, case.square("prefill_grid"), prompt)
    each = _decode_seconds(case, case.square("decode_grid"), prompt + tokens // 2)
    return float(tokens / (first + tokens * each))


def _gemv_cycles(case: RowCase, rect: Rect, all_reduce: Sum = centred_all_reduce) -> float:
    n = case["n"]
    return case.cycles(gemv(rect, n, n, 2, case.machine, all_reduce))


def _gemv_rect(case: RowCase) -> Rect:
    """Return the grid of the row or, if it gives none, the fastest of the published ones that the machine has."""
    if case["grid"]:
        return case.rect()
    largest = min(case.machine.width, case.machine.height)
    squares = [Rect(0, 0, side, side) for side in _GRID_SIDES if side <= largest] or [Rect(0, 0, largest, largest)]
    return min(squares, key=lambda rect: _gemv_cycles(case, rect))


def gemv_milliseconds(case: RowCase) -> float:
    """Return the milliseconds of a product of a vector and a matrix of n x n elements of 16 bits."""
    return 1e3 * _gemv_cycles(case, _gemv_rect(case)) / case.machine.clock_hz


def gemv_speedup(case: RowCase) -> float:
    """Return the speed-up over a reduction along the whole line, on the mesh that is fastest for the faster one."""
    rect = _gemv_rect(case)
    return _gemv_cycles(case, rect, chain_all_reduce) / _gemv_cycles(case, rect)


_MODEL = one_of("model", *PRESETS)
_GEMV_PARAMS = {
    "n": whole_number("rows and columns of the matrix"),
    "grid": extents("columns and rows of PEs; without it the fastest of the published meshes", default=None),
}

MODELS = {
    "decode": RowModel(
        "decoding with resident weights in 16 bits, one request on a square grid",
        {"model": _MODEL, "grid": GRID, "context": whole_number("tokens of the context")},
        {"tokens/s": decode_rate},
    ),
    "prefill": RowModel(
        "prefill with resident weights in 16 bits on a square grid",
        {"model": _MODEL, "grid": GRID, "tokens": whole_number("tokens of the prompt")},
        {"tokens/s": prefill_rate},
    ),
    "request": RowModel(
        "a whole request, prefill on one square grid and decoding on another",
        {
            "model": _MODEL,
            "prompt_tokens": whole_number("tokens of the prompt"),
            "generated_tokens": whole_number("generated tokens"),
            "prefill_grid": GRID,
            "decode_grid": GRID,
        },
        {"tokens/s/request": request_rate},
    ),
    "gemv": RowModel(
        "a product of a vector and a matrix of n x n elements of 16 bits, with an all-reduce by way of the middle",
        _GEMV_PARAMS,
        {"ms": gemv_milliseconds, "x over a chain": gemv_speedup},
    ),
}
