"""The operations that `tests.bench.operations` times, as expressions of PyTorch, and the process that times them.

    PYTHON operation_cases.py ours|torch THREADS

The process reads lines "NAME SIZE BUDGET" from its input, and answers each with the least seconds of an iteration. It
needs only `torch`, so that an interpreter with PyTorch runs it too. The seconds are CPU time of the process if THREADS
is 1, so that a loaded machine gives the same figure as an idle one, and the time of the clock otherwise.
"""

import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

WARM_UP = 30
"""Iterations before the measured ones: lazywafer compiles a loop's graph when it recurs."""
UNARY = """
    torch: abs acos asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac i0
           lgamma log log10 log1p log2 logit nan_to_num neg positive rad2deg reciprocal round rsqrt sgn sigmoid sign sin
           sinc sinh sqrt square tan tanh trunc conj clone
    F: celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu softplus
       softshrink softsign tanhshrink
    torch.special: entr erfcx log_ndtr ndtr i0e i1 i1e
"""
BINARY = """
    torch: add atan2 copysign div fmax fmin fmod hypot logaddexp logaddexp2 maximum minimum mul pow remainder rsub sub
           xlogy float_power
    torch.special: xlog1py
"""
LOSSES = """
    F: binary_cross_entropy binary_cross_entropy_with_logits huber_loss kl_div l1_loss mse_loss
       poisson_nll_loss smooth_l1_loss soft_margin_loss hinge_embedding_loss
"""
REDUCTIONS = "amax amin cumprod cumsum logcumsumexp logsumexp mean nanmean nansum prod std sum var median quantile"
"""Operations of a matrix along a dimension. Each is timed along both."""
OTHERS = """
torch.acosh(x + 1) | x: n
F.threshold(x, 0.5, 0.0) | x: n
torch.clamp(x, 0.2, 0.8) | x: n
torch.clip(x, min=z) | x: n, z: n
torch.polygamma(1, x) | x: n
torch.mvlgamma(x + 2, 2) | x: n
torch.pow(x, 3) | x: n
torch.ldexp(x, y) | x: n, y: n
torch.addcdiv(x, y, z) | x: n, y: n, z: n
torch.addcmul(x, y, z) | x: n, y: n, z: n
torch.lerp(x, y, z) | x: n, y: n, z: n
torch.where(z > 0.5, x, y) | x: n, y: n, z: n
torch.masked_fill(x, m, 0.5) | x: r r, m: bool r r
torch.masked_select(x, m) | x: r r, m: bool r r
torch.masked_scatter(x, m, y) | x: r r, m: bool r r, y: r r
x + y | x: r r, y: r
x * y | x: r r, y: r 1
x.to(torch.float64) | x: n
F.prelu(x, y) | x: 8 q q q, y: q
F.glu(x) | x: r 2r
F.rrelu(x) | x: n
F.dropout(x, 0.2) | x: n
F.dropout2d(x, 0.2) | x: 8 q q q
F.alpha_dropout(x, 0.2) | x: n
F.softmax(x, 1) | x: r r
F.softmax(x, 0) | x: r r
F.softmax(x, -1) | x: m/64 64
F.log_softmax(x, 1) | x: r r
F.softmin(x, 1) | x: r r
x.sum() | x: n
x.mean() | x: n
x.max() | x: n
x.max(0)[0] | x: r r
x.max(1)[0] | x: r r
x.min(1)[0] | x: r r
x.norm() | x: n
x.prod() | x: n
x.std() | x: n
torch.aminmax(x, dim=1) | x: r r
torch.sum(x, (0, 2)) | x: q q q
torch.mean(x, (2, 3)) | x: 8 q q q
torch.linalg.vector_norm(x, dim=1) | x: r r
torch.norm(x, dim=0) | x: r r
torch.renorm(x, 2, 0, 1.0) | x: r r
torch.var_mean(x, dim=1) | x: r r
torch.std_mean(x, dim=0) | x: r r
torch.cummax(x, 1)[0] | x: r r
torch.cummin(x, 0)[0] | x: r r
torch.cumsum(x, 0) | x: n
torch.diff(x) | x: r r
torch.trapezoid(x) | x: r r
torch.cumulative_trapezoid(x) | x: r r
torch.gradient(x) | x: r r
torch.cov(x) | x: s r
torch.corrcoef(x) | x: s r
torch.dist(x, y) | x: n, y: n
torch.kthvalue(x, 3, 1)[0] | x: r r
torch.mode(x, 1)[0] | x: r r
torch.sort(x, 1)[0] | x: r r
torch.sort(x, 0)[0] | x: r r
torch.sort(x)[0] | x: n
torch.msort(x) | x: r r
torch.topk(x, 5, 1)[0] | x: r r
F.layer_norm(x, (256,), y, z) | x: m/256 256, y: 256, z: 256
F.layer_norm(x, (r,)) | x: r r
F.rms_norm(x, (256,), y) | x: m/256 256, y: 256
F.batch_norm(x, None, None, y, z, training=True) | x: 8 q q q, y: q, z: q
F.batch_norm(x, None, None, y, z, training=True) | x: r r, y: r, z: r
F.batch_norm(x, a, b, y, z) | x: 8 q q q, y: q, z: q, a: fixed q, b: fixed q
F.group_norm(x, 4, y, z) | x: 8 32 h h, y: 32, z: 32
F.instance_norm(x, weight=y, bias=z) | x: 8 q q q, y: q, z: q
F.local_response_norm(x, 5) | x: 8 q q q
F.normalize(x, dim=1) | x: r r
F.cosine_similarity(x, y, 1) | x: r r, y: r r
F.pairwise_distance(x, y) | x: r r, y: r r
torch.cdist(x, y) | x: s 32, y: s 32
F.pdist(x) | x: s 32
F.conv1d(x, y, z, padding=1) | x: 8 32 n/256, y: 32 32 3, z: 32
F.conv2d(x, y, z, padding=1) | x: 8 32 h h, y: 32 32 3 3, z: 32
F.conv2d(x, y, z) | x: 8 32 h h, y: 64 32 1 1, z: 64
F.conv2d(x, y, z, stride=2, padding=1) | x: 8 32 h h, y: 32 32 3 3, z: 32
F.conv2d(x, y, z, padding=1, groups=32) | x: 8 32 h h, y: 32 1 3 3, z: 32
F.conv2d(x, y, z, padding=2, dilation=2) | x: 8 32 h h, y: 32 32 3 3, z: 32
F.conv3d(x, y, z, padding=1) | x: 2 8 k k k, y: 8 8 3 3 3, z: 8
F.conv_transpose1d(x, y, z) | x: 8 32 n/256, y: 32 32 3, z: 32
F.conv_transpose2d(x, y, z, stride=2) | x: 8 32 h h, y: 32 16 2 2, z: 16
F.conv_transpose3d(x, y, z) | x: 2 8 k k k, y: 8 8 3 3 3, z: 8
F.avg_pool1d(x, 2) | x: 8 32 n/256
F.avg_pool2d(x, 2) | x: 8 32 h h
F.avg_pool3d(x, 2) | x: 2 8 k k k
F.max_pool1d(x, 2) | x: 8 32 n/256
F.max_pool2d(x, 2) | x: 8 32 h h
F.max_pool2d(x, 3, 2, 1) | x: 8 32 h h
F.max_pool3d(x, 2) | x: 2 8 k k k
F.adaptive_avg_pool1d(x, 2) | x: 8 32 n/256
F.adaptive_avg_pool2d(x, 1) | x: 8 32 h h
F.adaptive_avg_pool3d(x, 2) | x: 2 8 k k k
F.adaptive_max_pool1d(x, 2) | x: 8 32 n/256
F.adaptive_max_pool2d(x, 2) | x: 8 32 h h
F.adaptive_max_pool3d(x, 2) | x: 2 8 k k k
F.lp_pool1d(x, 2, 2) | x: 8 32 n/256
F.lp_pool2d(x, 2, 2) | x: 8 32 h h
F.lp_pool3d(x, 2, 2) | x: 2 8 k k k
F.interpolate(x, scale_factor=2) | x: 2 32 h h
F.interpolate(x, scale_factor=2, mode="bilinear") | x: 2 32 h h
F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True) | x: 2 32 h h
F.interpolate(x, scale_factor=2, mode="bicubic") | x: 2 32 h h
F.interpolate(x, scale_factor=2, mode="linear") | x: 4 32 n/256
F.interpolate(x, scale_factor=0.5, mode="area") | x: 2 32 h h
F.grid_sample(x, y, align_corners=False) | x: 2 32 h h, y: 2 h h 2
F.affine_grid(x, (8, 3, h, h), align_corners=False) | x: 8 2 3
F.pixel_shuffle(x, 2) | x: 8 32 h h
F.pixel_unshuffle(x, 1) | x: 8 32 h h
F.channel_shuffle(x, 4) | x: 8 32 h h
F.pad(x, (1, 1, 1, 1)) | x: 8 32 h h
F.pad(x, (1, 1, 1, 1), mode="reflect") | x: 8 32 h h
F.pad(x, (1, 1, 1, 1), mode="replicate") | x: 8 32 h h
F.pad(x, (1, 1, 1, 1), mode="circular") | x: 8 32 h h
torch.cat((x, y)) | x: r r, y: r r
torch.cat((x, y), 1) | x: r r, y: r r
torch.stack((x, y)) | x: r r, y: r r
torch.stack((x, y), -1) | x: r r, y: r r
torch.hstack((x, y)) | x: r r, y: r r
torch.vstack((x, y)) | x: r r, y: r r
torch.dstack((x, y)) | x: r r, y: r r
torch.column_stack((x, y)) | x: r r, y: r r
torch.block_diag(x, y) | x: s r, y: s r
torch.split(x, 8, 1) | x: m/64 64
torch.chunk(x, 3, 0) | x: r r
torch.tensor_split(x, 3, 1) | x: r r
torch.unbind(x) | x: 8 n/8
torch.select(x, 1, 2) | x: r r
torch.narrow(x, 1, 1, 5) | x: m/64 64
x[1:] | x: r r
x[:, 1:] | x: r r
x[:, ::2] | x: r r
x[..., :4] + x[..., 4:8] | x: m/64 64
x[3] | x: r r
x[:, 3] | x: r r
x[i] | x: r r, i: int r r
x[i] | x: n, i: int n n
x[:, i] | x: r r, i: int r r
x[i, j] | x: r r, i: int r n, j: int r n
x[m] | x: r r, m: bool r
x[m] | x: r r, m: bool r r
torch.index_select(x, 0, i) | x: r r, i: int r r
torch.index_select(x, 1, i) | x: r r, i: int r r
torch.index_add(x, 0, i, y) | x: r r, i: int r r, y: r r
torch.index_copy(x, 0, i, y) | x: r r, i: order r, y: r r
torch.index_fill(x, 0, i, 0.5) | x: r r, i: int r r
torch.index_put(x, (i,), y) | x: r r, i: order r, y: r r
torch.index_put(x, (i,), y, accumulate=True) | x: r r, i: int r r, y: r r
torch.index_reduce(x, 0, i, y, "mean") | x: r r, i: int r r, y: r r
torch.gather(x, 1, i) | x: r r, i: int r r r
torch.gather(x, 0, i) | x: r r, i: int r r r
torch.scatter(x, 1, i, y) | x: r r, i: orders r r, y: r r
torch.scatter_add(x, 1, i, y) | x: r r, i: int r r r, y: r r
torch.scatter_add(x, 0, i, y) | x: r r, i: int r r r, y: r r
torch.scatter_reduce(x, 1, i, y, "amax") | x: r r, i: int r r r, y: r r
torch.take(x, i) | x: n, i: int n n
torch.take_along_dim(x, i, 1) | x: r r, i: int r r r
torch.put(x, i, y) | x: n, i: order n, y: n
torch.select_scatter(x, y, 0, 1) | x: r r, y: r
torch.slice_scatter(x, y, 1, 1) | x: r r+1, y: r r
torch.diagonal_scatter(x, y) | x: r r, y: r
torch.as_strided(x, (r, r), (1, 1)) | x: n
torch.as_strided_scatter(x, y, (r,), (2,)) | x: n, y: r
torch.unflatten(x, 0, (8, -1)) * 2 | x: n
torch.permute(x, (2, 0, 1)) | x: q q q
torch.transpose(x, 0, 1) | x: r r
x.t().contiguous() | x: r r
torch.movedim(x, 0, 2) | x: q q q
torch.reshape(x, (-1, 8)) | x: n
torch.flip(x, (0, 1)) | x: r r
torch.fliplr(x) | x: r r
torch.flipud(x) | x: r r
torch.rot90(x) | x: r r
torch.roll(x, 3, 1) | x: r r
torch.tile(x, (2, 2)) | x: r r
x.repeat(2, 2) | x: r r
x.expand(8, n) | x: n
x.unfold(1, 4, 2) | x: r r
F.unfold(x, 3, padding=1) | x: 8 4 h h
F.fold(x, (8, 8), 2, stride=2) | x: n/64 4 16
torch.repeat_interleave(x, 2, 0) | x: r r
torch.repeat_interleave(x, i, 0) | x: r r, i: int 3 r
torch.broadcast_to(x, (8, n)) | x: n
torch.meshgrid(x, y, indexing="ij") | x: r, y: r
torch.cartesian_prod(x, y) | x: r, y: r
torch.combinations(x) | x: s
torch.diag(x) | x: s
torch.diag_embed(x) | x: s r
torch.diagonal(x) | x: r r
torch.tril(x) | x: r r
torch.triu(x) | x: r r
F.embedding(i, x) | x: 1000 64, i: int 1000 n/64
F.embedding(i, x, padding_idx=0) | x: 1000 64, i: int 1000 n/64
F.embedding_bag(i, x) | x: 1000 64, i: int 1000 n/640 10
F.embedding_bag(i, x, mode="sum") | x: 1000 64, i: int 1000 n/640 10
F.embedding_bag(i, x, mode="max") | x: 1000 64, i: int 1000 n/640 10
F.cross_entropy(x, i) | x: m/64 64, i: int 64 m/64
F.cross_entropy(x, i) | x: r r, i: int r r
F.cross_entropy(x, i, label_smoothing=0.1) | x: m/64 64, i: int 64 m/64
F.cross_entropy(x, i, weight=a) | x: m/64 64, i: int 64 m/64, a: fixed 64
F.cross_entropy(x, i) | x: 8 32 h h, i: int 32 8 h h
F.cross_entropy(x, a) | x: m/64 64, a: fixed m/64 64
F.nll_loss(x, i) | x: m/64 64, i: int 64 m/64
F.linear_cross_entropy(x, y, i) | x: s 64, y: 128 64, i: int 128 s
F.gaussian_nll_loss(x, a, z) | x: n, a: fixed n, z: n
F.multi_margin_loss(x, i) | x: m/64 64, i: int 64 m/64
F.multilabel_margin_loss(x, i) | x: m/64 64, i: int 64 m/64 64
F.margin_ranking_loss(x, y, a) | x: n, y: n, a: fixed n
F.cosine_embedding_loss(x, y, a) | x: r r, y: r r, a: fixed r
F.triplet_margin_loss(x, y, z) | x: r r, y: r r, z: r r
F.triplet_margin_with_distance_loss(x, y, z) | x: r r, y: r r, z: r r
F.ctc_loss(x.log_softmax(2), i, a, b) | x: 50 n/1000 20, i: label n/1000, a: full 50 n/1000, b: full 10 n/1000
F.linear(x, y, z) | x: m/64 64, y: 64 64, z: 64
F.bilinear(x, y, w) | x: m/64 16, y: m/64 16, w: 4 16 16
torch.matmul(x, y) | x: s s, y: s s
torch.matmul(x, y) | x: 8 t t, y: 8 t t
torch.matmul(x, y) | x: 8 8 t t, y: t t
torch.mm(x, y) | x: s 64, y: 64 s
torch.bmm(x, y) | x: 64 u u, y: 64 u u
torch.mv(x, y) | x: r r, y: r
torch.dot(x, y) | x: n, y: n
torch.vdot(x, y) | x: n, y: n
torch.inner(x, y) | x: s 64, y: s 64
torch.outer(x, y) | x: r, y: r
torch.ger(x, y) | x: r, y: r
torch.kron(x, y) | x: s 4, y: 4 4
torch.addmm(z, x, y) | x: s 64, y: 64 s, z: s
torch.addmv(z, x, y) | x: r r, y: r, z: r
torch.addr(z, x, y) | x: r, y: r, z: r r
torch.addbmm(z, x, y) | x: 8 t t, y: 8 t t, z: t t
torch.baddbmm(z, x, y) | x: 8 t t, y: 8 t t, z: 8 t t
torch.chain_matmul(x, y, z) | x: s 64, y: 64 s, z: s 64
torch.linalg.multi_dot((x, y, z)) | x: s 64, y: 64 s, z: s 64
torch.tensordot(x, y, 2) | x: s 8 8, y: 8 8 s
torch.einsum("bij,bjk->bik", x, y) | x: 8 t t, y: 8 t t
torch.einsum("bhqd,bhkd->bhqk", x, y) | x: 4 4 t 32, y: 4 4 t 32
torch.einsum("ij,j->i", x, y) | x: r r, y: r
torch.einsum("ii->i", x) | x: r r
torch.cross(x, y, dim=1) | x: n/3 3, y: n/3 3
torch.linalg.vecdot(x, y) | x: r r, y: r r
torch.linalg.cross(x, y, dim=1) | x: n/3 3, y: n/3 3
torch.linalg.matrix_norm(x) | x: r r
torch.linalg.norm(x) | x: r r
torch.linalg.det(x + e) | x: u u, e: eye u
torch.linalg.slogdet(x + e)[1] | x: u u, e: eye u
torch.logdet(x @ x.t() + e) | x: u u, e: eye u
torch.linalg.inv(x + e) | x: u u, e: eye u
torch.linalg.pinv(x + e) | x: 16 16, e: eye 16
torch.linalg.solve(x + e, y) | x: u u, e: eye u, y: u u
torch.linalg.lstsq(x + e, y)[0] | x: u u, e: eye u, y: u u
torch.linalg.cond(x + e) | x: u u, e: eye u
torch.linalg.vander(x, N=4) | x: n/4
torch.linalg.solve_triangular(x + e, y, upper=True) | x: u u, e: eye u, y: u u
torch.triangular_solve(y, x + e)[0] | x: u u, e: eye u, y: u u
torch.linalg.cholesky(x @ x.t() + e) | x: u u, e: eye u
torch.cholesky_solve(y, x + e) | x: u u, e: eye u, y: u u
torch.cholesky_inverse(x + e) | x: u u, e: eye u
torch.linalg.qr(x)[1] | x: u u
torch.linalg.eigh(x + x.t())[0] | x: u u
torch.linalg.eigvalsh(x + x.t()) | x: u u
torch.linalg.svdvals(x) | x: u u
torch.linalg.svd(x)[1] | x: u u
torch.linalg.lu_factor(x + e)[0] | x: u u, e: eye u
torch.linalg.lu(x + e)[2] | x: u u, e: eye u
torch.linalg.householder_product(x, y) | x: u 8, y: 8
torch.linalg.matrix_exp(x * 0.01) | x: u u
torch.linalg.matrix_power(x, 3) | x: t t
torch.linalg.inv(x + e) | x: n/16 4 4, e: eye 4
torch.linalg.cholesky(x @ x.mT + e) | x: n/16 4 4, e: eye 4
F.scaled_dot_product_attention(x, y, z) | x: 4 4 v 32, y: 4 4 v 32, z: 4 4 v 32
F.scaled_dot_product_attention(x, y, z, is_causal=True) | x: 4 4 v 32, y: 4 4 v 32, z: 4 4 v 32
torch.nn.RNN(32, 32)(x)[0] | x: 16 n/512 32
torch.nn.GRU(32, 32)(x)[0] | x: 16 n/512 32
torch.nn.LSTM(32, 32)(x)[0] | x: 16 n/512 32
torch.nn.LSTM(32, 32, 2, bidirectional=True)(x)[0] | x: 16 n/512 32
torch.nn.LSTMCell(32, 32)(x)[0] | x: n/32 32
torch.nn.MultiheadAttention(32, 4)(x, x, x)[0] | x: v 16 32
"""
"""Lines "expression | operand: shape, ...", whose letters `extents` explains. A word before a shape is a key of
`MAKERS`.
"""


@dataclass(frozen=True)
class Case:
    """One expression with the descriptions of its operands, by name."""

    name: str
    text: str
    operands: dict[str, str] = field(default_factory=dict)


def _listed(text: str) -> Iterator[str]:
    """Yield the qualified names in a text such as UNARY."""
    prefix = ""
    for word in text.split():
        if word.endswith(":"):
            prefix = word[:-1]
        else:
            yield f"{prefix}.{word}"


def _case(line: str) -> Case:
    text, _, operands = line.rpartition(" | ")
    given = dict(operand.split(": ") for operand in operands.split(", "))
    shapes = " ".join(shape.replace(" ", ",") for shape in given.values())
    return Case(f"{text} {shapes}", text, given)


def cases() -> dict[str, Case]:
    """Return all cases by name: the expression and the shapes of its operands."""
    lines = [f"{name}(x) | x: n" for name in _listed(UNARY)]
    lines += [f"{name}(x, y) | x: n, y: n" for name in _listed(BINARY)]
    lines += [f"{name}(x, a) | x: n, a: fixed n" for name in _listed(LOSSES)]
    lines += ["F.multilabel_soft_margin_loss(x, a) | x: r r, a: fixed r r"]
    for name in REDUCTIONS.split():
        arguments = "0.3, " if name == "quantile" else ""
        result = "[0]" if name == "median" else ""
        lines += [f"torch.{name}(x, {arguments}dim={dim}){result} | x: r r" for dim in (0, 1)]
    lines += OTHERS.strip().splitlines()
    return {case.name: case for case in map(_case, lines)}


def extents(size: int) -> dict[str, int]:
    """Return the numbers that shapes are written in, for operands of about `size` elements.

    - `n`, `m`: `size`; `r`: its square root, `q`: an extent of q * q * q * 8 elements, `h`: of 8 * 32 * h * h, and `k`
      of 16 * k * k * k.
    - `s`, `t`, `u`, `v`: extents of products and factorizations, whose work grows faster than their operands.
    """
    return {
        "n": size,
        "m": max(size, 256),
        "r": max(math.isqrt(size), 8),
        "q": max(round((size / 8) ** (1 / 3)), 4),
        "h": max(math.isqrt(size // 256), 4),
        "k": max(round((size / 16) ** (1 / 3)), 4),
        "s": min(max(math.isqrt(size), 8), 1024),
        "t": min(max(math.isqrt(size // 8), 8), 512),
        "u": min(max(math.isqrt(size // 8), 8), 256),
        "v": min(max(size // 512, 8), 1024),
    }


def _shape(text: str, numbers: dict[str, int]) -> tuple[int, ...]:
    words = [word.replace("2r", "2*r").replace("/", "//") for word in text.split()]
    return tuple(max(eval(word, {}, numbers), 1) for word in words)


MAKERS: dict[str, Callable[..., Any]] = {
    "fixed": lambda torch, *shape: torch.rand(shape) * 0.8 + 0.1,
    "bool": lambda torch, *shape: torch.rand(shape) > 0.5,
    "int": lambda torch, high, *shape: torch.randint(high, shape),
    "order": lambda torch, count: torch.randperm(count),
    "orders": lambda torch, rows, count: torch.argsort(torch.rand(rows, count), 1),
    "eye": lambda torch, count: torch.eye(count) * (2 * count),
    "full": lambda torch, value, count: torch.full((count,), value, dtype=torch.int64),
    "label": lambda torch, count: torch.randint(1, 20, (count, 10)),
}
"""By the word before a shape: how an operand without a gradient is made of `torch` and the numbers of the shape."""


def make_step(torch: Any, case: Case, size: int) -> Callable[[], None]:
    """Return a function that runs one iteration of a plain loop.

    The iteration computes the expression, multiplies each result by fixed weights and sums it up, runs backward, reads
    the loss and the gradients, and drops them. An expression without a gradient is only computed and read.
    """
    torch.manual_seed(0)
    numbers = extents(size)
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, **numbers}
    leaves = []
    for name, text in case.operands.items():
        maker, _, shape = text.partition(" ")
        if maker in MAKERS:
            names[name] = MAKERS[maker](torch, *_shape(shape, numbers))
        else:
            names[name] = (torch.rand(_shape(text, numbers)) * 0.8 + 0.1).requires_grad_()
            leaves.append(names[name])
    text, _, layer = case.text, "", ""
    if text.startswith("torch.nn."):
        # The layer is made once.
        layer, text = text[: text.index(")(") + 1], text[text.index(")(") + 1 :]
        names["layer"] = eval(layer, names)
        leaves += list(names["layer"].parameters())
        text = "layer" + text
    function = eval(f"lambda: {text}", names)

    def results() -> list[Any]:
        y = function()
        return [part for part in (y if isinstance(y, tuple | list) else (y,)) if part.dtype.is_floating_point]

    weights = [torch.rand(y.shape, dtype=y.dtype) + 0.5 for y in results()]

    def step() -> None:
        loss = sum(((y * w).sum() for y, w in zip(results(), weights, strict=True)), 0)
        if loss.requires_grad:
            loss.backward()
        loss.item()
        for leaf in leaves:
            if leaf.grad is not None:
                leaf.grad.numpy(force=True)
                leaf.grad = None

    return step


def least_seconds(step: Callable[[], None], seconds: float, clock: Callable[[], float]) -> float:
    """Return the least time of an iteration by `clock`, from batches of iterations that take `seconds` together."""
    start = clock()
    step()
    count = max(1, int(seconds / 5 / max(clock() - start, 1e-6)))
    least = math.inf
    end = clock() + seconds
    while least == math.inf or clock() < end:
        start = clock()
        for _ in range(count):
            step()
        least = min(least, (clock() - start) / count)
    return least


def main() -> None:
    """Answer the lines of the input; see the module."""
    if sys.argv[1] == "ours":
        importlib.import_module("cstorch_compat").install()
    torch = importlib.import_module("torch")
    torch.set_num_threads(int(sys.argv[2]))
    clock = time.process_time if int(sys.argv[2]) == 1 else time.perf_counter
    table, last, step = cases(), "", None
    for line in sys.stdin:
        name, size, seconds = line.rstrip("\n").split("\t")
        try:
            if (key := f"{name} {size}") != last:
                last, step = "", None  # The operands of the last case are freed first.
                step = make_step(torch, table[name], int(size))
                end = clock() + 10 * float(seconds)
                for _ in range(WARM_UP):
                    step()
                    if clock() > end:
                        break
                last = key
            answer = str(least_seconds(step, float(seconds), clock))
        except Exception as error:
            answer = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
