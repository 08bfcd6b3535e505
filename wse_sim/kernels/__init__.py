"""Mesh kernels written by hand: published kernels with measurements, and kernels with operands that run.

A recipe of the planner starts from CIRH; a kernel here takes the extents of the problem and builds the phase program of
its authors. The validation prices the published kernels. `KERNELS` lists the kernels with operands, which have three
interpretations: `cost(kernel.phase, machine)` in cycles, `apply(kernel.phase, memory)` with NumPy, and
`simulate_phase(kernel.phase, machine, memory)` as wavelets. `scatter` copies global matrices to the memories and
`gather` copies results back. `as_data` and `as_wavelets` scatter, run and gather:

    kernel = KERNELS["summa"](Rect(0, 0, 4, 4), 10, 20, 30, "float16")
    results, run = as_wavelets(kernel, {"a": a, "b": b}, WSE2)
    results["c"], run.cycles, cost(kernel.phase, WSE2).cycles

Unless the docstring of a kernel differs, a matrix is distributed in blocks over the whole rectangle, rows along y and
columns along x, and extents that do not divide evenly are padded. `Placed` describes the layout of each operand and
result.

The table has each kernel's tolerance against NumPy in float64. Its unit is the unit in the last place (ULP) of the
result's type at a scale, which for a sum is the sum of the magnitudes of its terms. "wide" means ULP of float32,
whatever the type of the operands:

| kernel | ULP |
|---|---|
| products, gemv, spmm, convolution, embedding_gradient | one for each term of a sum and each PE that it is over |
| channel_convolution and its gradients, window_sum, window_spread | 1; wide: one for each term of a sum |
| linear_step | one for each term of a sum, wide; 1 where dy and w are rounded, and what comes of it |
| bicgstab | 8 after one iteration, wide: 8 (cells + PEs of both sides), of the largest element of b |
| star | 1, and 4 for each distance |
| softmax, softmax_cross_entropy | 1; wide: columns + PEs of a row + 6 + the largest difference in a row |
| layer_norm, rms_norm | 1; wide: 2 (columns + PEs of a row) + 8 |
| layer_norm_gradient, rms_norm_gradient | 1; wide: 4 (columns + PEs of a row) + rows + PEs of a column + 20 |
| batch_norm, batch_norm_gradient | 1; wide: 2 (elements of a channel + PEs of a column) + 8; 4 of it + 20 |
| bias_relu, embedding, at_places, window_argmax, random_uniform, add_counters | 0: NumPy's bits |
| put_places | 1; wide: one for each term of a sum |
| attention | 2; wide: tokens + PEs of a column + 12, and twice the terms of a score times the largest of their sums |
| attention_gradient | 1; wide: tokens + 3 widths + PEs of a column + 20, and four times as much of scores |
| bias_gelu | 1; wide: 8 |
| sgd_momentum | 1; wide: 2 |
| adam | 1; wide: 8; moments 2 and 3 |
"""

from collections.abc import Callable, Mapping

from wse_sim.kernels.attention.ring import Heads, attention, attention_gradient
from wse_sim.kernels.elementwise.elementwise import adam, bias_gelu, bias_relu, sgd_momentum
from wse_sim.kernels.elementwise.gather_scatter import at_places, embedding, embedding_gradient, put_places
from wse_sim.kernels.elementwise.random_bits import add_counters, limbs_of, random_uniform, state_limbs
from wse_sim.kernels.kernel import MeshKernel, Placed, as_data, as_wavelets, blank, gather, scatter
from wse_sim.kernels.matmul.cannon import cannon, input_gradient, linear_step, summa, two_hop, weight_gradient
from wse_sim.kernels.matmul.gemv import gemv_kernel
from wse_sim.kernels.matmul.stationary_operand import operand_in_place, result_in_place
from wse_sim.kernels.rows.norms import (
    batch_norm,
    batch_norm_gradient,
    layer_norm,
    layer_norm_gradient,
    rms_norm,
    rms_norm_gradient,
)
from wse_sim.kernels.rows.softmax import softmax, softmax_cross_entropy
from wse_sim.kernels.solvers.bicgstab import bicgstab
from wse_sim.kernels.solvers.stencil import star
from wse_sim.kernels.sparse.sparse import elements_of, spmm, stream_of, streamed_product, wavelets_of
from wse_sim.kernels.windows.channel_convolution import (
    Images,
    channel_convolution,
    convolution_input_gradient,
    convolution_weight_gradient,
)
from wse_sim.kernels.windows.image_bands import cut
from wse_sim.kernels.windows.pooling import window_argmax, window_numbers, window_spread, window_sum
from wse_sim.kernels.windows.tiled_convolution import convolution
from wse_sim.kernels.windows.window import Window

# The tests run every kernel in all three interpretations, so a new kernel needs a sample there.
KERNELS: Mapping[str, Callable[..., MeshKernel]] = {
    "gemv": gemv_kernel,
    "summa": summa,
    "cannon": cannon,
    "two_hop": two_hop,
    "weight_gradient": weight_gradient,
    "input_gradient": input_gradient,
    "linear_step": linear_step,
    "operand_in_place": operand_in_place,
    "result_in_place": result_in_place,
    "streamed_product": streamed_product,
    "spmm": spmm,
    "softmax": softmax,
    "softmax_cross_entropy": softmax_cross_entropy,
    "layer_norm": layer_norm,
    "bias_relu": bias_relu,
    "bias_gelu": bias_gelu,
    "embedding": embedding,
    "embedding_gradient": embedding_gradient,
    "at_places": at_places,
    "put_places": put_places,
    "sgd_momentum": sgd_momentum,
    "adam": adam,
    "star": star,
    "bicgstab": bicgstab,
    "convolution": convolution,
    "channel_convolution": channel_convolution,
    "convolution_input_gradient": convolution_input_gradient,
    "convolution_weight_gradient": convolution_weight_gradient,
    "random_uniform": random_uniform,
    "add_counters": add_counters,
    "layer_norm_gradient": layer_norm_gradient,
    "rms_norm": rms_norm,
    "rms_norm_gradient": rms_norm_gradient,
    "batch_norm": batch_norm,
    "batch_norm_gradient": batch_norm_gradient,
    "attention": attention,
    "attention_gradient": attention_gradient,
    "window_sum": window_sum,
    "window_spread": window_spread,
    "window_argmax": window_argmax,
}
"""Name -> a function that takes a rectangle, extents and an element type and returns the kernel."""
