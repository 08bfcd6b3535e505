"""How the operations of layers are spelled in CIRH: convolutions, windows, normalizations, places, orders."""

from collections.abc import Callable, Mapping

import numpy as np

from lazytensor.cirh.hints import way_out
from lazytensor.cirh.listing import Listing, float_text, ints_text, type_text
from lazytensor.cirh.spelling import Spelling, truth, typed
from lazytensor.dtype import float32, float64
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Node

LAYOUTS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}
"""The name of a layout by the number of spatial dimensions."""


def _convolution(direction: str, transposed: bool = False) -> Spelling:
    def attrs(n: Node) -> str:
        a = n.attrs
        if a["groups"] != 1:
            raise CompileError(
                "'cirh.Convolution' op convolutions with groups != 1 are not supported",
                where=n.where,
                hint="Cut input and weight into their groups, convolve each with groups=1, and join with torch.cat.",
            )
        listed = {
            "dilation": ints_text(a["dilation"]),
            "groups": f"{a['groups']} : i64",
            "padding": ints_text(low for low, _ in a["padding"]),
            "stride": ints_text(a["stride"]),
        }
        layout = LAYOUTS[len(a["stride"])]
        head = f'conv_pass_direction = "{direction}", data_format = "{layout}", '
        return head + ", ".join(f"{k} = {v}" for k, v in listed.items()) + (", transposed" if transposed else "")

    return typed("Convolution", attrs)


def _pool(kind: str, gradient: bool = False) -> Spelling:
    """Windows over [N, C, D, H, W]; the forward pass names its operand twice."""

    def spell(out: Listing, n: Node) -> str:
        a = n.attrs
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
        given = (n.inputs[0], n.inputs[-1])
        names = ", ".join(out.names[i] for i in given)
        types = ", ".join(type_text(i.type) for i in given)
        return f'"cirh.Pool"({names}) {{{", ".join(body)}}} : ({types}) -> {type_text(n.type)}'

    return spell


def _epsilon(n: Node) -> str:
    return f"epsilon = {float_text(n.attrs['eps'], float32)}"


def _batch(training: bool) -> Callable[[Node], str]:
    def attrs(n: Node) -> str:
        factor = float_text(n.attrs["momentum"], float32)
        return (
            f'data_format = "NCHW", {_epsilon(n)}, exponential_avg_factor = {factor}, is_training = {truth(training)}'
        )

    return attrs


def _group(n: Node) -> str:
    groups = n.attrs["groups"]
    return f'affine = true, data_format = "NCHW", {_epsilon(n)}, num_groups = {groups} : i64'


def _group_grad(n: Node) -> str:
    return f'affine = true, data_format = "NCHW", num_groups = {n.attrs["groups"]} : i64'


def _order(n: Node) -> str:
    a = n.attrs
    flags = f"largest = {truth(a['largest'])}, sorted = true"
    return f"dimension = {a['dim']} : i32, k = {a['k']} : i32, {flags}"


def _scan(out: Listing, n: Node) -> str:
    name = {"add": "CumSum", "mul": "CumProd"}.get(n.attrs["kind"])
    if name is None:
        raise CompileError(f"CIRH has no running {n.attrs['kind']!r}", where=n.where, hint=way_out("scan"))
    attrs = f"axis = {n.attrs['dim']} : i64, exclusive = false, reverse = {truth(n.attrs['reverse'])}"
    return typed(name, lambda n: attrs)(out, n)


def _padding(n: Node) -> str:
    rank, a = len(n.type.shape), n.attrs
    value = float_text(a["value"], n.type.dtype) if n.type.dtype.kind == "f" else f"{a['value']} : {n.type.dtype.mlir}"
    number, kind = value.split(" : ")
    return (
        f"constant_values = dense<{number}> : tensor<{rank}x{kind}>, "
        f"edge_padding_high = {ints_text(high for _, high in a['pairs'])}, "
        f"edge_padding_low = {ints_text(low for low, _ in a['pairs'])}, "
        f'interior_padding = {ints_text([0] * rank)}, padding_mode = "CONSTANT"'
    )


def _scattering(n: Node) -> str:
    kinds = {"set": "NONE", "add": "ADD", "mul": "MUL", "maximum": "MAX", "minimum": "MIN"}
    return f'axis = {n.attrs["dim"]} : i64, reduce_kind = "{kinds[n.attrs["kind"]]}"'


def _gathering(n: Node) -> str:
    return f"axis = {n.attrs['dim']} : i64, batch_dims = 0 : i64, is_sparse = false"


def _splitting(n: Node) -> str:
    return f"axis = {n.attrs['dim']} : i64, split_sizes = {ints_text(n.attrs['sizes'])}"


def _boundary(n: Node) -> str:
    return f'boundary_type = "{n.attrs["boundary"]}", scope_name = "{n.attrs["scope"]}"'


def _rank(n: Node) -> str:
    return f"dimension = {n.attrs['dim']} : i64, k = {n.attrs['k']} : i64"


def _slope(name: str) -> Callable[[Node], str]:
    """A float32 number, printed with the digits of a float64."""
    return lambda n: f"alpha = {float_text(float(np.float32(n.attrs[name])), float64)}"


def _softplus(n: Node) -> str:
    return f"beta = {float_text(n.attrs['beta'], float32)}, threshold = {float_text(n.attrs['threshold'], float32)}"


LAYERS: Mapping[str, Spelling] = {
    "conv": _convolution("FWD"),
    "conv_transposed": _convolution("FWD", True),
    "conv_input": _convolution("BWD_INPUT", True),
    "conv_weight": _convolution("BWD_KERNEL"),
    "bias_add": typed("BiasAdd", lambda n: f"dim = {n.attrs['dim']} : i64"),
    "bias_add_grad": typed("BiasAddGrad", lambda n: f"dim = {n.attrs['dim']} : i64"),
    "pool_max": _pool("MAX"),
    "pool_max_place": _pool("ARGMAX"),
    "pool_max_grad": _pool("MAX", True),
    "pool_average": _pool("AVERAGE"),
    "pool_average_grad": _pool("AVERAGE", True),
    "reaches_nth": typed("NthOrderStatistic", _rank),
    "scope_boundary": typed("ScopeBoundary", _boundary),
    "layer_norm": typed("LayerNorm", _epsilon),
    "layer_norm_grad_all": typed("LayerNormGrad", _epsilon),
    "group_norm_rows": typed("GroupNorm", _group),
    "group_norm_grad_all": typed("GroupNormGrad", _group_grad),
    "batch_norm_all": typed("FusedBatchNorm", _batch(False)),
    "batch_norm_training_all": typed("FusedBatchNorm", _batch(True)),
    "batch_norm_grad_all": typed(
        "FusedBatchNormGrad", lambda n: f'data_format = "NCHW", {_epsilon(n)}, is_training = true'
    ),
    "elu_grad": typed("EluGrad", _slope("alpha"), arrow=False),
    "leaky_relu_grad": typed("LeakyReluGrad", _slope("slope")),
    "gelu_grad": typed("GeluGrad", lambda n: f'approximation = "{n.attrs["approximate"].upper()}"', arrow=False),
    "softplus": typed("Softplus", _softplus, arrow=False),
    "elu": typed("Elu", _slope("alpha"), arrow=False),
    "leaky_relu": typed("LeakyRelu", _slope("slope"), arrow=False),
    "l2_norm": typed("L2Norm", lambda n: f"dims = {ints_text(n.attrs['dims'])}, keepdim = {truth(n.attrs['keepdim'])}"),
    "scan": _scan,
    "top": typed("TopK", _order),
    "pad": typed("pad", _padding),
    "split": typed("Split", _splitting),
    "gather": typed("Gather", _gathering),
    "gather_rows": typed("Gather", _gathering),
    "gather_points": typed("GatherNd", lambda n: "sparse_grad, start_dim = 0 : i64"),
    "scatter": typed("Scatter", _scattering),
    "scatter_points": typed("ScatterNd", lambda n: ""),
    "softmax_cross_entropy": typed("SparseSoftmaxCrossEntropyWithLogits", lambda n: "axis = 1 : i64"),
}

RESULTS: Mapping[str, tuple[str, ...]] = {
    "softmax_cross_entropy": ("loss", "backprop"),
    "top": ("topKValues", "topKIndices"),
    "layer_norm_grad_all": ("result", "beta_grad", "gamma_grad"),
    "batch_norm_all": ("y", "batch_mean", "batch_variance"),
    "batch_norm_training_all": ("y", "batch_mean", "batch_variance"),
    "group_norm_grad_all": ("x_backprop", "scale_backprop", "offset_backprop"),
    "batch_norm_grad_all": ("x_backprop", "scale_backprop", "offset_backprop"),
}
"""The names of the results of operations with several of them; others number theirs."""
