"""The way out for each operation that CIRH does not have: what to write instead, in the words of PyTorch."""

from collections.abc import Mapping

_FACTORS = "Compute it on the client before the step and pass the result in with the batch, or keep it as a buffer."
_BITS = "Keep masks as bool and combine them with &, | and ~; do arithmetic on integers with +, - and *."
_ROWS = "Compute it in the data loader, and pass the result in with the batch."

WAYS_OUT: Mapping[str, str] = {
    "index_put": "Write torch.where(mask, new, old) with a mask, or x.scatter(dim, index, values).",
    "index_get": "Index the first dimensions with tensors of one shape, or use torch.index_select or torch.gather.",
    "slice_update": "Write torch.where(mask, new, old), or torch.cat of the parts.",
    "strided_put": "Write torch.where(mask, new, old), or torch.cat of the parts.",
    "as_strided": "Take slices, or torch.stack of slices for overlapping windows.",
    "strided_sum": "Take slices, or torch.stack of slices for overlapping windows; their gradient is padding.",
    "put_places": "Un-pool with F.interpolate on the client, or upsample by a transposed convolution.",
    "at_places": "Use F.max_pool2d, whose windows have one size, or x.amax(dim) over whole dimensions.",
    "region_argmax": "Use F.max_pool2d with a kernel that divides the input evenly.",
    "window_argmax": "Use F.max_pool1d, max_pool2d or max_pool3d over [N, C, ...].",
    "window_sum": "Use F.avg_pool1d, avg_pool2d or avg_pool3d and multiply by the size of the window.",
    "window_spread": "Use F.conv_transpose2d with a weight of ones.",
    "avg_pool": "Leave divisor_override out and scale the result; give a batch dimension.",
    "avg_pool_grad": "Leave divisor_override out and scale the result; give a batch dimension.",
    "pick_along": "Write torch.index_select(x, dim, index) with an index from the batch.",
    "place_along": "Write torch.index_select(x, dim, index) with an index from the batch.",
    "arg_scan": "Compare x with a running maximum that the step carries as state, or take x.amax(dim).",
    "arg_pick": "Sort the row and take its middle: x.sort(dim)[0].select(dim, n // 2).",
    "searchsorted": "Count: (boundaries < x.unsqueeze(-1)).sum(-1).",
    "isin": "Compare with each: (x.unsqueeze(-1) == wanted).any(-1).",
    "integer_fmod": "Write a - torch.div(a, b, rounding_mode='floor') * b for numbers of one sign.",
    "integer_pow": "Multiply: x * x, or convert to float, raise, and convert back.",
    "bitwise_and": _BITS,
    "bitwise_or": _BITS,
    "bitwise_xor": _BITS,
    "left_shift": "Multiply by 2 ** n.",
    "right_shift": "Divide by 2 ** n with rounding_mode='floor'.",
    "gcd": _ROWS,
    "lcm": _ROWS,
    "frexp_mantissa": "Divide by 2 ** torch.floor(torch.log2(torch.abs(x)) + 1).",
    "frexp_exponent": "Write torch.floor(torch.log2(torch.abs(x))) + 1.",
    "asinh": "Write torch.log(x + torch.sqrt(x * x + 1)).",
    "atanh": "Write 0.5 * torch.log((1 + x) / (1 - x)).",
    "erfinv": _FACTORS,
    "lgamma": "Use Stirling's series: (x - 0.5) * torch.log(x) - x + 0.9189385 + 1 / (12 * x).",
    "polygamma": "Use the asymptotic series, for n = 0: torch.log(x) - 1 / (2 * x) - 1 / (12 * x * x).",
    "bessel_i0": _FACTORS,
    "bessel_i1": _FACTORS,
    "igamma": _FACTORS,
    "igammac": _FACTORS,
    "signbit": "Write x < 0.",
    "hypot": "Write torch.sqrt(a * a + b * b).",
    "copysign": "Write torch.abs(a) * torch.sign(b).",
    "fmax": "Write torch.maximum(a, b); replace NaN with torch.where(x != x, other, x) first.",
    "fmin": "Write torch.minimum(a, b); replace NaN with torch.where(x != x, other, x) first.",
    "nextafter": "Add a small number of your own.",
    "logaddexp": "Write m + torch.log(torch.exp(a - m) + torch.exp(b - m)) with m = torch.maximum(a, b).",
    "logaddexp2": "Write m + torch.log2(2 ** (a - m) + 2 ** (b - m)) with m = torch.maximum(a, b).",
    "xlogy": "Write torch.where(a == 0, 0.0, a * torch.log(b)).",
    "heaviside": "Write torch.where(x > 0, 1.0, torch.where(x < 0, 0.0, values)).",
    "nan_to_num": "Write torch.where(x != x, torch.zeros_like(x), x), and clamp for infinities.",
    "scan": "Write m + torch.log(torch.cumsum(torch.exp(x - m), dim)) with m = x.amax(dim, keepdim=True).",
    **dict.fromkeys(
        """cholesky triangular_solve solve pinv det cofactor logabsdet det_sign qr geqrf svd singular_values eigh
        matrix_exp lu permutation""".split(),
        _FACTORS,
    ),
}


def way_out(op: str) -> str:
    """What to do about an operation that has no spelling."""
    return WAYS_OUT.get(op, "Write this part of the step with operations that CIRH has, or move it to the data loader.")
