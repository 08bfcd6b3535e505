"""CIRH text of layer operations: convolutions, pooling, normalization, indexing and sorting."""

from collections.abc import Callable

import numpy as np

from lazytensor.cirh.listing import Listing, float_text, ints_text, type_text
from lazytensor.cirh.spelling import arguments, bool_text, function_type, typed_operation
from lazytensor.core.dtype import float32, float64
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import Legality
from lazytensor.ir.reduction import REDUCTIONS

LAYOUT_NAMES = {1: "NCL", 2: "NCHW", 3: "NCDHW"}
"""The name of the data layout, by the number of spatial dimensions."""


def convolution(direction: str, transposed: bool = False) -> Legality:
    """Return a `Legality` that prints a convolution or one of its gradients.

    `direction` is CIRH's `conv_pass_direction`; `transposed` adds that attribute. Printing raises CompileError for
    groups other than 1, as the vendor's front end does. Of the padding, only that at the start of each dimension is
    printed.
    """

    def attrs(n: Node) -> str:
        a = n.attrs
        # CIRH has the attribute, but the front end refuses any value other than 1.
        if a["groups"] != 1:
            raise CompileError(
                "'cirh.Convolution' op convolutions with groups != 1 are not supported",
                where=n.where,
                hint=(
                    "Split input and weight into their groups, convolve each with groups=1, and join the results "
                    "with torch.cat."
                ),
            )
        listed = {
            "dilation": ints_text(a["dilation"]),
            "groups": f"{a['groups']} : i64",
            # One number for both sides: the extra element of padding="same" with an even kernel is not printed.
            "padding": ints_text(low for low, _ in a["padding"]),
            "stride": ints_text(a["stride"]),
        }
        layout = LAYOUT_NAMES[len(a["stride"])]
        head = f'conv_pass_direction = "{direction}", data_format = "{layout}", '
        return head + ", ".join(f"{k} = {v}" for k, v in listed.items()) + (", transposed" if transposed else "")

    return typed_operation("Convolution", attrs)


def pool(kind: str, gradient: bool = False) -> Legality:
    """Return a `Legality` that prints pooling over [N, C, D, H, W]. `kind` is CIRH's `pool_type`.

    The forward pass prints its operand twice; with `gradient`, the second operand is the gradient.
    """

    def spell(out: Listing, n: Node) -> str:
        a = n.attrs
        # Five pairs: batch and channels have no padding.
        pads = [p for pair in ((0, 0), (0, 0), *a["padding"]) for p in pair]
        body = [
            'data_format = "NCDHW"',
            "dilation = dense<1> : tensor<5xi64>",
            *(["gradient"] if gradient else []),
            f"ksize = {ints_text((1, 1, *a['kernel']))}",
            f"padding = {ints_text(pads)}",
            f'pool_type = "{kind}"',
            f"strides = {ints_text((1, 1, *a['stride']))}",
        ]
        # In the forward pass both operands are the input; in the backward pass the second is the gradient.
        operands = (n.inputs[0], n.inputs[-1])
        names = ", ".join(out.names[i] for i in operands)
        types = ", ".join(type_text(i.type) for i in operands)
        return f'"cirh.Pool"({names}) {{{", ".join(body)}}} : ({types}) -> {type_text(n.type)}'

    return Legality(spell)


def epsilon_attribute(n: Node) -> str:
    """Return the attribute epsilon, the number added to a variance."""
    return f"epsilon = {float_text(n.attrs['eps'], float32)}"


def batch_norm(training: bool) -> Callable[[Node], str]:
    """Return a function that gives the attributes of batch normalization.

    It uses the statistics of the batch if `training`, and otherwise the given ones.
    """

    def attrs(n: Node) -> str:
        # PyTorch's momentum is the weight of the new statistics, which CIRH calls exponential_avg_factor.
        factor = float_text(n.attrs["momentum"], float32)
        return (
            f'data_format = "NCHW", {epsilon_attribute(n)}, exponential_avg_factor = {factor}, is_training = '
            f"{bool_text(training)}"
        )

    return attrs


def group_norm_attributes(n: Node) -> str:
    """Return the attributes of GroupNorm.

    If the layer has no weight and bias, they are constants and `affine` is false.
    """
    groups, is_affine = n.attrs["groups"], n.inputs[1].op != "full"
    return f'affine = {bool_text(is_affine)}, data_format = "NCHW", {epsilon_attribute(n)}, num_groups = {groups} : i64'


def group_norm_gradient_attributes(is_affine: bool) -> Callable[[Node], str]:
    """Return a function that gives the attributes of GroupNormGrad, which has no epsilon.

    `is_affine` is whether the layer has weight and bias.
    """
    affine = bool_text(is_affine)
    return lambda n: f'affine = {affine}, data_format = "NCHW", num_groups = {n.attrs["groups"]} : i64'


CHANNEL_GRADIENTS = ("x_backprop", "scale_backprop", "offset_backprop")
"""The names of the gradients of a normalization with a weight and a bias for each channel."""


def batch_norm_gradient_attributes(n: Node) -> str:
    """Return the attributes of the gradient of batch normalization with the statistics of the batch."""
    return f'data_format = "NCHW", {epsilon_attribute(n)}, is_training = true'


def norm_attributes(n: Node) -> str:
    """Return the attributes of a Euclidean norm: its dimensions and keepdim."""
    return f"dims = {ints_text(n.attrs['dims'])}, keepdim = {bool_text(n.attrs['keepdim'])}"


def top_k_attributes(n: Node) -> str:
    """Return the attributes of top-k along a dimension, sorted."""
    a = n.attrs
    flags = f"largest = {bool_text(a['largest'])}, sorted = true"
    return f"dimension = {a['dim']} : i32, k = {a['k']} : i32, {flags}"


def _scan(out: Listing, n: Node) -> str:
    """Spell a running sum or product. Raise CompileError for a running logaddexp, which CIRH does not have."""
    name = {"add": "CumSum", "mul": "CumProd"}.get(n.attrs["kind"])
    # Only two of the three kinds are legal, but legality is a property of the operation: refuse the third kind here.
    if name is None:
        raise CompileError(
            f"CIRH has no operation for a cumulative {n.attrs['kind']!r}",
            where=n.where,
            hint="Write m + torch.log(torch.cumsum(torch.exp(x - m), dim)) with m = x.amax(dim, keepdim=True).",
        )
    attrs = f"axis = {n.attrs['dim']} : i64, exclusive = false, reverse = {bool_text(n.attrs['reverse'])}"
    return f"cirh.{name} {arguments(out, n)} {{{attrs}}} : {function_type(n)}"


SCAN = Legality(_scan)


def pad_attributes(n: Node) -> str:
    """Return the attributes of padding with one value."""
    rank, a = len(n.type.shape), n.attrs
    value = float_text(a["value"], n.type.dtype) if n.type.dtype.kind == "f" else f"{a['value']} : {n.type.dtype.mlir}"
    # The value is printed as a splat over the operand's rank.
    number, kind = value.split(" : ")
    return (
        f"constant_values = dense<{number}> : tensor<{rank}x{kind}>, "
        f"edge_padding_high = {ints_text(high for _, high in a['pairs'])}, "
        f"edge_padding_low = {ints_text(low for low, _ in a['pairs'])}, "
        f'interior_padding = {ints_text(a["interior"])}, padding_mode = "CONSTANT"'
    )


def scatter_attributes(n: Node) -> str:
    """Return the attributes of a scatter: the axis, and how values are combined with those present ("NONE" to set
    them).
    """
    kind = n.attrs["kind"]
    keyword = "NONE" if kind == "set" else REDUCTIONS[kind].cirh
    return f'axis = {n.attrs["dim"]} : i64, reduce_kind = "{keyword}"'


def gather_attributes(n: Node) -> str:
    """Return the attributes of a gather along one axis."""
    return f"axis = {n.attrs['dim']} : i64, batch_dims = 0 : i64, is_sparse = false"


def split_attributes(n: Node) -> str:
    """Return the attributes of a split of a dimension into sizes."""
    return f"axis = {n.attrs['dim']} : i64, split_sizes = {ints_text(n.attrs['sizes'])}"


def boundary_attributes(n: Node) -> str:
    """Return the attributes of the boundary of a named scope of the model."""
    return f'boundary_type = "{n.attrs["boundary"]}", scope_name = "{n.attrs["scope"]}"'


def in_top_k_attributes(n: Node) -> str:
    """Return the attributes of the test whether an element is among the k largest."""
    return f"dimension = {n.attrs['dim']} : i64, k = {n.attrs['k']} : i64"


def alpha_attribute(name: str) -> Callable[[Node], str]:
    """Return a function that gives the attribute `name` as alpha: a float32 number printed with the digits of a
    float64.
    """
    # PyTorch passes the slope as a double, after the front end rounded it to float32: 0.01 becomes
    # 0.0099999997764825821.
    return lambda n: f"alpha = {float_text(float(np.float32(n.attrs[name])), float64)}"


def softplus_parameters(n: Node) -> str:
    """Return the attributes beta and threshold with the digits of a float32."""
    return f"beta = {float_text(n.attrs['beta'], float32)}, threshold = {float_text(n.attrs['threshold'], float32)}"
