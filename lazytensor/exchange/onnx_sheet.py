"""The nodes and constants of an ONNX graph while it is written; the package `onnx` makes its records."""

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
"""The domain of the operations that ONNX lacks, each under our own name for it."""
ONNX_ELEMENT_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}
"""ONNX's names of types, where they are not ours in capitals."""


def load_onnx_module(name: str) -> Any:
    """A module of the package `onnx`. Raises LazyError where that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise LazyError(
            f"a model for ONNX needs the package onnx ({error})", hint="pip install lazywafer[onnx]"
        ) from error


class OnnxGraphBuilder:
    """What has been written so far. Values are known by their names."""

    def __init__(self) -> None:
        self.onnx = load_onnx_module("onnx")
        self.nodes: list[Any] = []
        self.names: dict[Node, list[str]] = {}
        """The results of each node of ours that is written."""
        self.constants: dict[Any, Any] = {}
        self.names_of_types = frozenset(self.onnx.TensorProto.DataType.keys())
        self.label = ""
        """What names of nodes and values begin with: where in the model the operation stands."""
        self._numbers = itertools.count()

    def add(self, kind: str, /, *inputs: str, outputs: int = 1, domain: str = "", **attrs: Any) -> list[str]:
        """Write a node of `kind`; returns the names of its results."""
        name = f"{self.label}{kind}_{next(self._numbers)}"
        results = [name] if outputs == 1 else [f"{name}.{k}" for k in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, results, name=name, domain=domain, **attrs))
        return results

    def one(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Write a node with one result; returns its name."""
        (result,) = self.add(kind, *inputs, **attrs)
        return result

    def element(self, dtype: DType) -> int:
        """ONNX's number for a type of elements. Raises CompileError for cbfloat16, which it lacks."""
        name = ONNX_ELEMENT_TYPES.get(dtype.name, dtype.name.upper())
        if name not in self.names_of_types:
            raise CompileError(f"ONNX has no type {dtype.name}", hint="Run the step in float32, float16 or bfloat16.")
        number: int = self.onnx.TensorProto.DataType.Value(name)
        return number

    def tensor(self, array: np.ndarray, type: Type, name: str = "value") -> Any:
        """A record of an array."""
        data = elements_for_file(np.ascontiguousarray(array), type).tobytes()
        return self.onnx.helper.make_tensor(name, self.element(type.dtype), type.shape, data, raw=True)

    def constant(self, array: np.ndarray, type: Type) -> str:
        """The name of a constant; equal ones are written once."""
        key = type, array.tobytes()
        if key not in self.constants:
            self.constants[key] = self.tensor(array, type, f"constant_{len(self.constants)}")
        name: str = self.constants[key].name
        return name

    def integers(self, values: Sequence[int]) -> str:
        """The name of a vector of int64, as shapes and axes are given."""
        array = np.array(values, np.int64)
        return self.constant(array, Type(array.shape, int64))

    def prune(self, results: Iterable[str]) -> None:
        """Leave out what none of the results needs, such as the places of maxima that only a pooling asked for."""
        needed, kept = set(results), []
        for record in reversed(self.nodes):
            if needed.intersection(record.output):
                needed.update(record.input)
                kept.append(record)
        self.nodes = kept[::-1]
        self.constants = {key: record for key, record in self.constants.items() if record.name in needed}
