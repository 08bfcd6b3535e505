"""Messages for TensorBoard's plugins: images, precision-recall curves, hyperparameters and graphs.

Formats: summary.proto, graph.proto and node_def.proto of TensorFlow; plugin_data.proto and api.proto of TensorBoard's
hparams plugin, and plugin_data.proto of its pr_curves plugin. Only the fields that are shown are written.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cstorch_compat.summaries.event_file import VARINT, encode_bytes_field, encode_summary_value, encode_varint
from cstorch_compat.summaries.png import encode_png_image
from lazytensor.core import source
from lazytensor.errors import OptionInvalid
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.types import Type

DT_FLOAT = 1
"""The number of DT_FLOAT in TensorFlow's DataType."""
MIN_DENOMINATOR = 1e-7
"""Minimum denominator of precision and recall, as in TensorBoard."""
HPARAM_STRING, HPARAM_BOOL, HPARAM_NUMBER = 1, 2, 3
"""The types of hyperparameters."""


def _encode_int(number: int, content: int) -> bytes:
    """Return a protobuf field with an integer."""
    return encode_varint(number << 3 | VARINT) + encode_varint(content)


def _encode_double(number: int, content: float) -> bytes:
    """Return a protobuf field with a double."""
    return bytes([number << 3 | 1]) + struct.pack("<d", content)


def _encode_text(number: int, content: str) -> bytes:
    """Return a protobuf field with a text."""
    return encode_bytes_field(number, content.encode())


def _encode_plugin(name: str, content: bytes) -> bytes:
    """Return the metadata that assigns a value to a plugin, with the plugin's data."""
    return encode_bytes_field(9, encode_bytes_field(1, _encode_text(1, name) + encode_bytes_field(2, content)))


def encode_image(tag: str, pixels: np.ndarray) -> bytes:
    """Return the body of an event with an image. `pixels` is uint8 of shape [height, width, channels]."""
    height, width, channels = pixels.shape
    sizes = _encode_int(1, height) + _encode_int(2, width) + _encode_int(3, channels)
    return encode_summary_value(tag, encode_bytes_field(4, sizes + encode_bytes_field(4, encode_png_image(pixels))))


def encode_pr_curve(
    tag: str, labels: np.ndarray, predictions: np.ndarray, count: int, weights: np.ndarray | None
) -> bytes:
    """Return the body of an event with precision and recall at `count` thresholds from 0 to 1.

    `labels` are 0 or 1 and `predictions` from 0 to 1. `weights` of the samples default to 1.
    """
    weights = np.ones(labels.shape) if weights is None else weights
    # Count the predictions that reach each threshold.
    bucket = np.floor(predictions * (count - 1)).astype(np.int64)
    above = [
        np.bincount(bucket.ravel(), (weights * of).ravel(), count)[::-1].cumsum()[::-1] for of in (labels, 1 - labels)
    ]
    # Every prediction reaches the first threshold, 0, so index 0 has the totals.
    true, false = above
    precision, recall = true / np.maximum(MIN_DENOMINATOR, true + false), true / np.maximum(MIN_DENOMINATOR, true[0])
    table = np.stack([true, false, false[0] - false, true[0] - true, precision, recall]).astype("<f4")
    shape = encode_bytes_field(2, b"".join(encode_bytes_field(2, _encode_int(1, extent)) for extent in table.shape))
    tensor = _encode_int(1, DT_FLOAT) + shape + encode_bytes_field(5, table.tobytes())
    return encode_summary_value(tag, _encode_plugin("pr_curves", _encode_int(2, count)) + encode_bytes_field(8, tensor))


def encode_hyperparameters(
    values: Mapping[str, Any], metrics: Iterable[str], domains: Mapping[str, Sequence[Any]], seconds: float
) -> list[bytes]:
    """Return the three messages of a session: the experiment, the values, and the end of the session.

    `values` are the hyperparameters, `metrics` the names of results, `domains` the possible values of hyperparameters,
    and `seconds` the end time. Raises ValueError for a value that is no number, string or bool.
    """
    infos = b"".join(
        encode_bytes_field(4, _encode_hyperparameter_info(name, v, domains.get(name, ()))) for name, v in values.items()
    )
    measured = b"".join(encode_bytes_field(5, encode_bytes_field(1, _encode_text(2, name))) for name in metrics)
    given = b"".join(
        encode_bytes_field(1, _encode_text(1, name) + encode_bytes_field(2, _encode_hyperparameter(name, v)[1]))
        for name, v in values.items()
    )
    # Each run has the whole experiment; the plugin merges equal ones.
    parts = {
        "experiment": encode_bytes_field(2, infos + measured),
        "session_start_info": encode_bytes_field(3, given),
        "session_end_info": encode_bytes_field(4, _encode_int(1, 1) + _encode_double(2, seconds)),  # 1 means success
    }
    return [
        encode_summary_value(f"_hparams_/{name}", _encode_plugin("hparams", content)) for name, content in parts.items()
    ]


def _encode_hyperparameter(name: str, v: Any) -> tuple[int, bytes]:
    """Return the type of a hyperparameter and its value as a protobuf Value. Raises ValueError for other types."""
    # Test bool first, because it is an int.
    if isinstance(v, bool | np.bool_):
        return HPARAM_BOOL, _encode_int(4, int(v))
    if isinstance(v, int | float | np.number):
        return HPARAM_NUMBER, _encode_double(2, float(v))
    if isinstance(v, str):
        return HPARAM_STRING, _encode_text(3, v)
    raise OptionInvalid(
        f"value should be one of int, float, str, bool, or torch.Tensor: {name} is a {type(v).__name__}",
        where=source.where(),
        hint="Convert the value to one of these types.",
    )


def _encode_hyperparameter_info(name: str, v: Any, domain: Sequence[Any]) -> bytes:
    """Return name, type and possible values of a hyperparameter as a message."""
    choices = b"".join(encode_bytes_field(1, _encode_hyperparameter(name, choice)[1]) for choice in domain)
    return (
        _encode_text(1, name)
        + _encode_int(4, _encode_hyperparameter(name, v)[0])
        + (encode_bytes_field(5, choices) if domain else b"")
    )


def encode_graph(outputs: Iterable[Node], state: Mapping[Node, str]) -> bytes:
    """Return the graph that computes `outputs` as a GraphDef, with names that TensorBoard groups by module.

    `state` maps the nodes of parameters and buffers to their names.
    """
    names: dict[Node, str] = {}
    body = b""
    for k, n in enumerate(topological(outputs)):
        scope = n.where.scope if n.where is not None else ""
        path = state.get(n, f"{scope}.{n.op}_{k}")
        names[n] = "/".join(filter(None, path.split(".")))
        # Names are paths, which TensorBoard groups by their common prefix.
        inputs = b"".join(_encode_text(3, names[i]) for i in n.inputs)
        body += encode_bytes_field(
            1, _encode_text(1, names[n]) + _encode_text(2, n.op) + inputs + _encode_output_shapes(n.type)
        )
    # Version 22 of the format supports all fields used here.
    return body + encode_bytes_field(4, _encode_int(1, 22))


def _encode_output_shapes(types: Type | tuple[Type, ...]) -> bytes:
    """Return the attribute with the shapes of a node's results, which TensorBoard shows at edges."""
    # The attribute is a list of shapes, in the order of the results.
    shapes = b"".join(
        encode_bytes_field(7, b"".join(encode_bytes_field(2, _encode_int(1, extent)) for extent in t.shape))
        for t in (types if isinstance(types, tuple) else (types,))
    )
    return encode_bytes_field(
        5, _encode_text(1, "_output_shapes") + encode_bytes_field(2, encode_bytes_field(1, shapes))
    )
