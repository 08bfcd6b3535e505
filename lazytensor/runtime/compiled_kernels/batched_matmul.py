"""Batched float32 matrix product by BLAS, each matrix cut into tiles: out[s] = a[s] @ b[s] in row-major order."""

import numpy as np

from lazytensor.runtime.atomics import called
from lazytensor.runtime.language import typed

ROW_MAJOR = 101  # CblasRowMajor of cblas.h


@typed(
    "void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64, int64, int64, int64)"
)
def kernel(
    sgemm: int,
    transpose_a: int,
    transpose_b: int,
    m: int,
    n: int,
    k: int,
    a: int,
    pitch_a: int,
    b: int,
    pitch_b: int,
    c: int,
    pitch_c: int,
    count: int,
    stride_a: int,
    stride_b: int,
    stride_c: int,
    tile_m: int,
    tile_n: int,
    tile_k: int,
    row_a: int,
    column_b: int,
    deep_a: int,
    deep_b: int,
) -> None:
    """Call cblas_sgemm, whose address is `sgemm`, for each tile of `tile_m` rows, `tile_n` columns and `tile_k` terms.

    `a`, `b` and `c` are addresses, and the pitches are leading dimensions in elements. All other distances are in
    bytes: the strides between matrices of the stack, between rows of a (`row_a`), between columns of b (`column_b`),
    and between terms of a sum (`deep_a`, `deep_b`). `count` is the number of matrices.
    """
    for s in range(count):
        # A long sum is cut into pieces, so that the operands of the tiles of one piece stay in a cache.
        for d in range(0, k, tile_k):
            beta = np.float32(0) if d == 0 else np.float32(1)
            for i in range(0, m, tile_m):
                for j in range(0, n, tile_n):
                    called(
                        sgemm,
                        np.int32(ROW_MAJOR),
                        np.int32(transpose_a),
                        np.int32(transpose_b),
                        min(m - i, tile_m),
                        min(n - j, tile_n),
                        min(k - d, tile_k),
                        np.float32(1),
                        a + s * stride_a + d * deep_a + i * row_a,
                        pitch_a,
                        b + s * stride_b + d * deep_b + j * column_b,
                        pitch_b,
                        beta,
                        c + s * stride_c + 4 * (i * pitch_c + j),
                        pitch_c,
                    )
