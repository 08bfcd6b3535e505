"""Functions give PyTorch's result type for each type of elements, and refuse the types that PyTorch refuses."""

import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch = get_mirror("torch")
DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
KEPT = DTYPES
FLOATS = ("float32", "float16", "bfloat16")
REFUSED = NotImplementedError

RECORDED = {
    "torch.hypot(x, x)": (*FLOATS, *[REFUSED] * 4),
    "torch.logaddexp(x, x)": (*FLOATS, *[REFUSED] * 4),
    "torch.logaddexp2(x, x)": (*FLOATS, *[REFUSED] * 4),
    "torch.special.round(x)": (*FLOATS, *[REFUSED] * 4),
    "torch.nn.functional.hardshrink(x)": (*FLOATS, *[REFUSED] * 4),
    "torch.nn.functional.hardtanh(x)": (*FLOATS, "int64", "int32", RuntimeError, RuntimeError),
    "torch.nanmedian(x)": (*KEPT[:-1], REFUSED),
    "torch.empty(0).to(x.dtype).median()": KEPT,
    "torch.dot(x, x)": (*KEPT[:-1], REFUSED),
    "torch.pow(x, x)": (*KEPT[:-1], REFUSED),
    "True ** x": (*KEPT[:-1], REFUSED),
    "torch.trapz(x)": (*FLOATS, *["float32"] * 3, RuntimeError),
    "torch.ldexp(x, torch.tensor([1, 2]))": (*FLOATS, *["float32"] * 4),
    "torch.ldexp(x, torch.tensor([True, False]))": (*[REFUSED] * 3, *["float32"] * 4),
    "torch.ldexp(x, 2)": (TypeError,) * 7,
    "torch.amax(torch.empty(0, 3).to(x.dtype), 0)": (IndexError,) * 7,
    "torch.amin(torch.empty(3, 0).to(x.dtype), 1)": (IndexError,) * 7,
}
"""By call: for each of `DTYPES` the result's type in PyTorch 2.13, or what it raises."""


@pytest.mark.parametrize("call", RECORDED)
def test_result_type_is_pytorchs(call: str) -> None:
    for dtype, expected in zip(DTYPES, RECORDED[call], strict=True):
        names = {"torch": torch, "x": torch.tensor([1, 0]).to(getattr(torch, dtype))}
        if isinstance(expected, str):
            assert eval(call, names).dtype.name == expected, dtype
        else:
            with pytest.raises(expected):
                eval(call, names)


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8", "int64"])
@pytest.mark.parametrize("make", ["x", "x[:1]", "x * 2"])
def test_cast_to_integers_ends_the_graph(dtype: str, make: str) -> None:
    x = torch.tensor([0.5, 1.5]).requires_grad_()
    out = eval(make, {"x": x}).to(getattr(torch, dtype))
    assert (out.requires_grad, out.grad_fn, out.is_leaf) == (False, None, True)
    assert not out.float().requires_grad


def test_variance_of_half_types_is_rounded_once() -> None:
    x = torch.tensor([0.5, 0.0, -0.75]).bfloat16()
    assert torch.var(x).item() == 0.396484375
    assert [v.item() for v in torch.var_mean(x)] == [0.396484375, -0.08349609375]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sign_of_nan_is_0_and_its_angle_nan(dtype: str) -> None:
    x = torch.tensor([float("nan"), -2.0, 0.0, 3.0], dtype=getattr(torch, dtype))
    assert x.sign().tolist() == [0.0, -1.0, 0.0, 1.0]
    assert torch.angle(x).isnan().tolist() == [True, False, False, False]


def test_floor_division_has_no_derivative() -> None:
    x = torch.tensor([3.0]).requires_grad_()
    torch.div(x, 2, rounding_mode="floor").sum().backward()
    assert x.grad.tolist() == [0.0]
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        (x // 2).sum().backward()


@pytest.mark.parametrize("divide", ["a // b", "a % b", "torch.fmod(a, b)", "torch.div(a, b, rounding_mode='trunc')"])
def test_integer_division_by_zero_is_refused_at_once(divide: str) -> None:
    names = {"torch": torch, "a": torch.tensor([3, 4]), "b": torch.tensor([1, 0]) * 1}
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        eval(divide, names)
    names["a"] = names["a"][:0, None]
    assert eval(divide, names).shape == (0, 2)
