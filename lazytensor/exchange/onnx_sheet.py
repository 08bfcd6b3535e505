"""Builder for the nodes and constants of an ONNX graph, which uses the package `onnx`."""

import importlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lazytensor.cirh.generic import elements_for_file
from lazytensor.core.dtype import DType, int64
from lazytensor.errors import CompileError, LazyError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type

CUSTOM_DOMAIN = "lazywafer"
"""The ONNX domain of operations that ONNX lacks, which keep the names of this package."""
ONNX_ELEMENT_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}
"""ONNX's names of element types that are not the upper-case form of ours."""


def load_onnx_module(name: str) -> Any:
    """Import a module of the package `onnx`. Raises LazyError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise LazyError(
            f"the export to ONNX needs the package onnx ({error})", hint="Install it with pip install lazywafer[onnx]."
        ) from error


class OnnxGraphBuilder:
    """The nodes and constants written so far. Values are identified by name."""

    def __init__(self) -> None:
        self.onnx = load_onnx_module("onnx")
        self.nodes: list[Any] = []
        self.names: dict[Node, list[str]] = {}
        """The names of the results of each node that was written."""
        self.constants: dict[Any, Any] = {}
        self.names_of_types = frozenset(self.onnx.TensorProto.DataType.keys())
        self.label = ""
        """Prefix of the names of nodes and values: the module path of the operation."""
        self._numbers = itertools.count()

    def add(self, kind: str, /, *inputs: str, outputs: int = 1, domain: str = "", **attrs: Any) -> list[str]:
        """Add a node of type `kind` and return the names of its `outputs` results.

        The names begin with `label` and have a number that makes them unique. `attrs` are the attributes of the node.
        """
        name = f"{self.label}{kind}_{next(self._numbers)}"
        results = [name] if outputs == 1 else [f"{name}.{k}" for k in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, results, name=name, domain=domain, **attrs))
        return results

    def one(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Add a node with one result and return the name of the result."""
        (result,) = self.add(kind, *inputs, **attrs)
        return result

    def element(self, dtype: DType) -> int:
        """Return ONNX's number of an element type. Raises CompileError for cbfloat16, which ONNX lacks."""
        name = ONNX_ELEMENT_TYPES.get(dtype.name, dtype.name.upper())
        if name not in self.names_of_types:
            raise CompileError(f"ONNX has no type {dtype.name}", hint="Run the step in float32, float16 or bfloat16.")
        number: int = self.onnx.TensorProto.DataType.Value(name)
        return number

    def tensor(self, array: np.ndarray, type: Type, name: str = "value") -> Any:
        """Return an ONNX tensor record named `name`, with an array in host form as elements of `type`.

        Values of a half type must be rounded already. Raises CompileError for a type that ONNX lacks.
        """
        data = elements_for_file(np.ascontiguousarray(array), type).tobytes()
        return self.onnx.helper.make_tensor(name, self.element(type.dtype), type.shape, data, raw=True)

    def constant(self, array: np.ndarray, type: Type) -> str:
        """Return the name of a constant with the data of an array; equal constants are stored once."""
        key = type, array.tobytes()
        if key not in self.constants:
            self.constants[key] = self.tensor(array, type, f"constant_{len(self.constants)}")
        name: str = self.constants[key].name
        return name

    def integers(self, values: Sequence[int]) -> str:
        """Return the name of a constant vector of int64, as ONNX takes shapes and axes."""
        array = np.array(values, np.int64)
        return self.constant(array, Type(array.shape, int64))

    def prune(self, results: Iterable[str]) -> None:
        """Remove nodes and constants that are not needed for the values `results`; the order of the others stays."""
        needed, kept = set(results), []
        for record in reversed(self.nodes):
            if needed.intersection(record.output):
                needed.update(record.input)
                kept.append(record)
        self.nodes = kept[::-1]
        self.constants = {key: record for key, record in self.constants.items() if record.name in needed}
