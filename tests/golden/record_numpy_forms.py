"""What PyTorch answers where NumPy and tensors meet: records numpy_forms.json beside this file.

Run it with torch 2.13.0 and numpy: `python tests/golden/record_numpy_forms.py`. Followed by
`tests/lazytensor/core/test_numpy_forms.py`, which evaluates the same expressions with ours.
"""

import json
import pathlib
import warnings
from typing import Any

import numpy as np

NAMES = """
import copy
import numpy as np
def p(): return torch.tensor([1.5, -2.0, 3.25], requires_grad=True)
def t(): return torch.tensor([1.5, -2.0, 3.25])
def d(): return torch.tensor([1.5, -2.0, 3.25], dtype=torch.float64)
def h(): return torch.tensor([1.5, -2.0, 3.25], dtype=torch.bfloat16)
def i(): return torch.tensor([1, 2, 3])
def b(): return torch.tensor([True, False, True])
def z(): return torch.tensor(2.5)
def m(): return torch.arange(6.0).reshape(2, 3)
def a(): return np.array([1.0, 2.0, 4.0], dtype=np.float32)
def a64(): return np.array([1.0, 2.0, 4.0])
def ai(): return np.array([1, 2, 4])
def ab(): return np.array([True, True, False])
def grad(f, x):
    f(x).sum().backward()
    return x.grad
def after(x, y, how):
    how(x, y)
    return x
"""
"""What the expressions speak of; `torch` is there already."""

SCALARS = ["np.float32(2)", "np.float64(2)", "np.float16(2)", "np.int64(2)", "np.int32(2)", "np.bool_(True)"]
ARRAYS = ["a()", "a64()", "ai()", "ab()", "np.array(2.0)", "np.ones((2, 3), np.float32)"]
TENSORS = ["p()", "t()", "d()", "h()", "i()", "b()", "z()"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "<<"]
COMPARISONS = ["==", "!=", "<", ">=", ">"]
UFUNCS = ["sin", "exp", "negative", "abs", "isnan", "sign", "sqrt", "floor", "square"]
PAIRS = ["t(), t()", "t(), a()", "a(), t()", "p(), a()", "t(), 2.0", "i(), 2"]
IN_PLACE = ["iadd", "isub", "imul", "itruediv"]
FUNCTIONS = ["sum", "mean", "max", "argmax", "sort", "shape", "ndim", "transpose", "squeeze", "ravel", "copy"]
COMPARED = [
    ("a()", "t()"),
    ("t()", "a()"),
    ("np.float32(1.5)", "t()"),
    ("t()", "np.float32(1.5)"),
    ("ai()", "i()"),
    ("i()", "ai()"),
    ("p()", "a()"),
    ("a()", "p()"),
    ("np.int64(2)", "i()"),
    ("z()", "np.float64(2.5)"),
    ("np.float64(2.5)", "z()"),
    ("t()", "np.ones(2)"),
    ("np.ones(2)", "t()"),
]
WRITTEN = [
    ("t()", "a()"),
    ("t()", "np.float32(2)"),
    ("a()", "t()"),
    ("i()", "ai()"),
    ("i()", "np.int64(2)"),
    ("i()", "np.float32(2)"),
    ("p()", "a()"),
    ("a()", "p()"),
    ("t()", "np.array(2.0)"),
]
NUMPY_CALLS = [
    "np.concatenate([t(), t()])",
    "np.stack([t(), a()])",
    "np.dot(t(), t())",
    "np.where(b(), t(), a())",
    "np.allclose(t(), t())",
    "np.testing.assert_allclose(t(), t())",
    "np.clip(t(), 0, 1)",
    "np.max(m(), axis=1)",
    "np.sum(m(), axis=0)",
    "np.mean(m(), 1)",
    "np.zeros_like(t())",
    "np.einsum('i,i', t(), t())",
]
ARRAY_CALLS = [
    "np.asarray(t(), dtype=np.float64)",
    "np.asarray(i(), np.float32)",
    "np.array(t(), dtype=int)",
    "np.array(t(), copy=False)",
    "np.array(t(), copy=True)",
    "np.asarray(p().detach())",
    "np.array([z(), z()])",
    "np.array([t(), t()])",
    "np.float32(z())",
    "np.float64(z())",
    "np.int64(i()[0])",
    "np.array(i()[:1])",
    "t().__array__()",
    "t().__array__(np.float64)",
    "t().__array__(dtype='float16')",
    "t().numpy()",
    "p().__array__()",
    "p().numpy()",
    "h().numpy()",
    "z().numpy()",
    "b().numpy()",
    "m().T.numpy()",
]
CALLS = [
    "after(a(), t(), lambda x, y: x.__setitem__(0, y[0]))",
    "after(a(), t(), lambda x, y: x.__setitem__(..., y))",
    "after(t(), a(), lambda x, y: x.__setitem__(0, y[0]))",
    "after(t(), a(), lambda x, y: x.__setitem__(..., y))",
    "after(t(), ab(), lambda x, y: x.__setitem__(y, 0.0))",
    "t()[ab()]",
    "t()[np.array([0, 2])]",
    "a()[b()]",
    "a()[i() - 1]",
    "t()[np.int64(1)]",
    "a()[i()[0]]",
    "t().add_(a())",
    "t().mul_(np.float32(3))",
    "t().add(a())",
    "torch.add(t(), a())",
    "torch.add(a(), t())",
    "torch.mul(t(), np.float32(2))",
    "torch.sin(a())",
    "torch.sum(a())",
    "torch.maximum(t(), a())",
    "torch.where(b(), a(), t())",
    "torch.pow(np.float64(2), t())",
    "torch.full((2,), np.float32(2))",
    "torch.tensor(np.float32(2))",
    "torch.tensor(np.float64(2))",
    "torch.tensor(a64())",
    "torch.as_tensor(ai())",
    "torch.tensor([np.float32(1), 2])",
    "torch.tensor([a(), a()])",
    "torch.zeros(np.int64(2))",
    "torch.arange(np.int64(3))",
    "t().sum(np.int64(0))",
    "m().reshape(np.int64(3), np.int64(2))",
    "torch.clamp(t(), np.float32(0), np.float32(1))",
]
EXCHANGES = [
    "torch.from_dlpack(a())",
    "torch.from_dlpack(ai())",
    "torch.utils.dlpack.from_dlpack(t())",
    "torch.from_dlpack(t())",
    "torch.from_numpy(a())",
    "torch.from_numpy(ab())",
    "torch.from_numpy(np.array(2.0))",
    "torch.from_numpy([1])",
    "torch.from_numpy(np.float32(1))",
    "t().__dlpack_device__()",
    "p().__dlpack_device__()",
    "p().__dlpack__()",
    "t().__array_priority__",
    "hasattr(t(), '__array_ufunc__')",
    "hasattr(t(), '__array_function__')",
    "hasattr(t(), '__array_interface__')",
    "hasattr(t(), '__cuda_array_interface__')",
    "t().__cuda_array_interface__",
    "t().__array_wrap__(a())",
    "i().__array_wrap__(ab())",
    "memoryview(t())",
    "np.iterable(t())",
    "np.isscalar(z())",
]


def _number_left() -> list[str]:
    operators = [f"{s} {o} {t}" for s in SCALARS for t in TENSORS for o in ("+", "-", "*", "/", "**")]
    operators += [f"{t} {o} {s}" for s in SCALARS for t in ("p()", "i()", "z()") for o in ("*", "/", "//")]
    gradients = ("np.float32(2) * x", "x * np.float64(2)", "np.float64(2) / x", "np.float32(2) ** x")
    return operators + [f"grad(lambda x: {g}, p())" for g in gradients]


def _array_left() -> list[str]:
    all_types = [f"{a} {o} {t}" for a in ARRAYS for t in TENSORS for o in ("+", "*")]
    return all_types + [f"{a} {o} {t}" for a in ("a()", "ai()") for t in ("t()", "i()") for o in OPERATORS]


def _array_right() -> list[str]:
    all_types = [f"{t} {o} {a}" for a in ARRAYS for t in TENSORS for o in ("+", "*")]
    return all_types + [f"{t} {o} {a}" for a in ("a()", "ai()") for t in ("t()", "i()") for o in OPERATORS]


def _of_numpy() -> list[str]:
    called = [f"np.{u}({t})" for u in UFUNCS for t in TENSORS]
    called += [f"np.{u}({pair})" for u in ("add", "multiply", "maximum", "divide", "arctan2", "less") for pair in PAIRS]
    called += ["np.add.reduce(t())", "np.add(t(), 1, out=a())", "np.add(a(), 1, out=t())"]
    called += [f"np.{f}({t})" for f in FUNCTIONS for t in ("t()", "i()", "m()", "p()")]
    return called + NUMPY_CALLS


def _as_arrays() -> list[str]:
    return [f"np.{f}({t})" for f in ("asarray", "array") for t in [*TENSORS, "m()", "m()[:, 1]"]] + ARRAY_CALLS


def _comparisons() -> list[str]:
    more = ["bool(np.float64(2.5) == z())", "np.float32(1.5) in t()", "t().eq(a())", "torch.equal(t(), a())"]
    return [f"{x} {c} {y}" for c in COMPARISONS for x, y in COMPARED] + more


def _in_place() -> list[str]:
    return [f"after({x}, {y}, operator.{o})" for o in IN_PLACE for x, y in WRITTEN]


def expressions() -> dict[str, list[str]]:
    """All of them, by form."""
    return {
        "number left": _number_left(),
        "array left": _array_left(),
        "array right": _array_right(),
        "ufunc": _of_numpy(),
        "asarray": _as_arrays(),
        "comparison": _comparisons(),
        "in place": _in_place(),
        "calls": CALLS,
        "DLPack": [f"np.from_dlpack({t})" for t in TENSORS] + EXCHANGES,
    }


def answer(expression: str, names: dict[str, Any]) -> dict[str, Any]:
    """Value, type and gradient of one expression, or the exception that it raises."""
    with warnings.catch_warnings():
        # NumPy calls PyTorch's `__array_wrap__` and `__array__` outdated; so are its answers for booleans.
        warnings.simplefilter("ignore")
        try:
            value = eval(expression, names)  # the expressions above, in the recorder and in the test
            return {"type": type(value).__name__, **_looked_at(value)}
        except Exception as e:
            return {"raises": [k.__name__ for k in type(e).__mro__], "text": str(e)}


def _looked_at(value: Any) -> dict[str, Any]:
    if isinstance(value, np.ndarray | np.generic):
        return {"dtype": str(value.dtype), "shape": list(value.shape), "value": _numbers(value.tolist())}
    if hasattr(value, "requires_grad"):
        numbers = value.detach().double() if "bfloat16" in str(value.dtype) else value.detach()
        return {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "value": _numbers(numbers.tolist()),
            "requires_grad": value.requires_grad,
        }
    return {"value": repr(value) if "0x" not in repr(value) else "an object"}


def _numbers(value: Any) -> Any:
    """Numbers as text, for JSON has no nan."""
    return [_numbers(v) for v in value] if isinstance(value, list) else repr(value)


if __name__ == "__main__":
    import operator

    import torch

    scope: dict[str, Any] = {"torch": torch, "operator": operator}
    exec(NAMES, scope)
    recorded = {e: answer(e, scope) for form in expressions().values() for e in form}
    for r in recorded.values():
        if "raises" in r:
            r["raises"] = r["raises"][0]  # ours may be a class of its own below it
    lines = [f"{json.dumps(e)}: {json.dumps(r)}" for e, r in recorded.items()]
    path = pathlib.Path(__file__).parent / "numpy_forms.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(recorded)} expressions, torch {torch.__version__}, numpy {np.__version__}")
