"""What Tensor has besides its own file; `python -m tests.method_stub` writes it from the marked functions."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.autograd.function import GradientFunction
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional.linalg import QR, Reflectors, SignLog, Solution
from lazytensor.functional.pointwise_special import MantissaExponent
from lazytensor.functional.reduction import Extremes, ValuesIndices
from lazytensor.functional.sorting import Histogram
from lazytensor.functional.type_promotion import Operand
from lazytensor.random import Generator

class Methods:
    """Methods, forms that write in place, operators and properties of Tensor."""

    @property
    def H(self) -> Tensor:
        """Return a view of a matrix transposed: [m, n] -> [n, m]. A 0-d tensor is returned itself."""

    @property
    def T(self) -> Tensor:
        """Return a view with the dimensions in reverse order."""

    def __abs__(self) -> Tensor:
        """Return the absolute value of each element of `x`, in its dtype. Raises TypeUnsupported for bools."""

    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: builtins.bool = False) -> Tensor:
        """Return the result of a NumPy ufunc on a tensor as a tensor without a gradient."""

    def __contains__(self, element: Any) -> builtins.bool:
        """Return whether any element of `x` equals `element`, a number or a tensor that broadcasts."""

    def __copy__(self) -> Tensor:
        """Return a leaf that shares the storage and attributes of `x`. It requires a gradient if `x` does."""

    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Tensor:
        """Return a leaf over a copy of the whole storage of `x`, with copies of its gradient and attributes."""

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule that shares the memory of `x`."""

    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:
        """Return DLPack's device type and number of the CPU."""

    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor:
        """Return x[index]: a view, or a copy if `index` contains a tensor or a mask."""

    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand) -> Tensor: ...
    def __iand__(self, other: Operand) -> Tensor: ...
    def __ifloordiv__(self, other: Operand) -> Tensor: ...
    def __ilshift__(self, other: Operand) -> Tensor: ...
    def __imatmul__(self, other: Operand) -> Tensor: ...
    def __imod__(self, other: Operand) -> Tensor: ...
    def __imul__(self, other: Operand) -> Tensor: ...
    def __invert__(self) -> Tensor:
        """Return the bitwise complement of each integer in `input`, or the logical negation of each bool."""

    def __ior__(self, other: Operand) -> Tensor: ...
    def __ipow__(self, other: Operand) -> Tensor: ...
    def __irshift__(self, other: Operand) -> Tensor: ...
    def __isub__(self, other: Operand) -> Tensor: ...
    def __itruediv__(self, other: Operand) -> Tensor: ...
    def __ixor__(self, other: Operand) -> Tensor: ...
    def __le__(self, other: Operand) -> Tensor: ...
    def __lshift__(self, other: Operand) -> Tensor: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __matmul__(self, other: Operand) -> Tensor: ...
    def __mod__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor:
        """Return -x for each element, in the shape of `x`. Raises ShapeError for bools."""

    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """Return `x` itself, for every dtype including bool."""

    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return `rebuild` and its arguments for `pickle`."""

    def __repr__(self) -> str:
        """Return the tensor as text, like PyTorch, with size, device, dtype and gradient if they are not implied."""

    def __rfloordiv__(self, other: Operand) -> Tensor: ...
    def __rlshift__(self, other: Operand) -> Tensor: ...
    def __rmatmul__(self, other: Operand) -> Tensor: ...
    def __rmod__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __ror__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __rrshift__(self, other: Operand) -> Tensor: ...
    def __rshift__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __rxor__(self, other: Operand) -> Tensor: ...
    def __setitem__(self, index: Any, value: object) -> None:
        """Write `value`, converted to the dtype of `x` and broadcast, to x[index]."""

    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    def _repr_html_(self) -> str:
        """Return the tensor as HTML for a notebook: type, heat map, and text as in `tensor_text`."""

    def abs(self) -> Tensor:
        """Return the absolute value of each element of `x`, in its dtype. Raises TypeUnsupported for bools."""

    def abs_(self) -> Tensor: ...
    def absolute(self) -> Tensor:
        """Return the absolute value of each element of `x`, in its dtype. Raises TypeUnsupported for bools."""

    def absolute_(self) -> Tensor: ...
    def acos(self) -> Tensor:
        """Return the angle in radians, from 0 to pi, whose cosine is each element; NaN outside of [-1, 1]."""

    def acos_(self) -> Tensor: ...
    def acosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine of each element: NaN for elements below 1."""

    def acosh_(self) -> Tensor: ...
    def add(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor:
        """Return a + alpha * b. Shapes broadcast and dtypes are promoted."""

    def add_(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor: ...
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """Return beta * x + alpha * (sum over b of batch1[b] @ batch2[b]), where `x` broadcasts to [m, n]."""

    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addcdiv(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor:
        """Return x + value * a / b. Shapes broadcast and dtypes are promoted."""

    def addcdiv_(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor: ...
    def addcmul(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor:
        """Return x + value * a * b. Shapes broadcast and dtypes are promoted."""

    def addcmul_(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor: ...
    def addmm(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """Return beta * x + alpha * (a @ b) for matrices [m, k] and [k, n]; `x` broadcasts to [m, n]."""

    def addmm_(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """Return beta * x + alpha * (mat @ vec) for a matrix [m, k] and a vector [k]; `x` broadcasts to [m]."""

    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """Return beta * x + alpha * outer(vec1, vec2) for vectors [m] and [n]; `x` broadcasts to [m, n]."""

    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def all(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return whether all elements over `dim` are nonzero, as a bool tensor, or as uint8 for a uint8 tensor."""

    def allclose(
        self,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> builtins.bool:
        """Return whether `isclose` is true for all elements, as a Python bool. The shapes broadcast."""

    def amax(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the maximum over `dim`. Equal maxima share the gradient evenly."""

    def amin(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the minimum over `dim`. Equal minima share the gradient evenly."""

    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Extremes:
        """Return the minimum and the maximum over `dim`, or over all elements. Equal ones share the gradient."""

    def angle(self) -> Tensor:
        """Return pi where the element is negative, 0 where it is not, and NaN where it is NaN."""

    def any(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return whether any element over `dim` is nonzero, as a bool tensor, or as uint8 for a uint8 tensor."""

    def arccos(self) -> Tensor:
        """Return the angle in radians, from 0 to pi, whose cosine is each element; NaN outside of [-1, 1]."""

    def arccos_(self) -> Tensor: ...
    def arccosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine of each element: NaN for elements below 1."""

    def arccosh_(self) -> Tensor: ...
    def arcsin(self) -> Tensor:
        """Return the angle in radians, from -pi/2 to pi/2, whose sine is each element; NaN outside of [-1, 1]."""

    def arcsin_(self) -> Tensor: ...
    def arcsinh(self) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""

    def arcsinh_(self) -> Tensor: ...
    def arctan(self) -> Tensor:
        """Return the angle in radians, from -pi/2 to pi/2, whose tangent is each element."""

    def arctan2(self, b: Tensor) -> Tensor:
        """Return the angle of the point (x=b, y=a) in radians, from -pi to pi. Shapes broadcast."""

    def arctan2_(self, b: Tensor) -> Tensor: ...
    def arctan_(self) -> Tensor: ...
    def arctanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent of each element: inf for 1, -inf for -1, NaN outside of [-1, 1]."""

    def arctanh_(self) -> Tensor: ...
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the int64 index of the maximum along `dim`, or in the flattened tensor if `dim` is None."""

    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the int64 index of the minimum along `dim`, or in the flattened tensor if `dim` is None."""

    def argsort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool | None = None
    ) -> Tensor:
        """Return the int64 indices that sort `x` along `dim`, in the shape of `x`."""

    def argwhere(self) -> Tensor:
        """Return the indices of all nonzero elements as int64 [count, dimensions]. Raises as `nonzero` does."""

    def as_strided(
        self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None
    ) -> Tensor:
        """Return a view of the storage of `x` with the shape `size`."""

    def as_strided_scatter(
        self,
        src: Tensor,
        size: Sequence[builtins.int],
        stride: Sequence[builtins.int],
        storage_offset: builtins.int | None = None,
    ) -> Tensor:
        """Return a copy of `x` with the elements of `as_strided(x, size, stride, storage_offset)` replaced by `src`."""

    def as_subclass(self, cls: builtins.type[Tensor]) -> Tensor:
        """Return a tensor of the class `cls` that shares the storage, the view and the autograd history of `x`."""

    def asin(self) -> Tensor:
        """Return the angle in radians, from -pi/2 to pi/2, whose sine is each element; NaN outside of [-1, 1]."""

    def asin_(self) -> Tensor: ...
    def asinh(self) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""

    def asinh_(self) -> Tensor: ...
    def atan(self) -> Tensor:
        """Return the angle in radians, from -pi/2 to pi/2, whose tangent is each element."""

    def atan2(self, b: Tensor) -> Tensor:
        """Return the angle of the point (x=b, y=a) in radians, from -pi to pi. Shapes broadcast."""

    def atan2_(self, b: Tensor) -> Tensor: ...
    def atan_(self) -> Tensor: ...
    def atanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent of each element: inf for 1, -inf for -1, NaN outside of [-1, 1]."""

    def atanh_(self) -> Tensor: ...
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Compute the gradient of this tensor and add it to `.grad` of every leaf that the tensor depends on."""

    def baddbmm(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """Return beta * x + alpha * (a @ b) for batches [b, m, k] and [b, k, n]; `x` broadcasts to [b, m, n]."""

    def baddbmm_(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def bernoulli(self, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
        """Return a tensor in the shape of `x` with 1 with probability `x` (or `p`, if it is given) and 0 otherwise."""

    def bernoulli_(self, p: builtins.float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Write 1 with probability `p`, else 0, to each element of `x`, and return `x`."""

    def bfloat16(self) -> Tensor:
        """Return `x` converted to bfloat16; `x` itself if it has that dtype."""

    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """Return the number of occurrences of each integer 0, 1, ... in the vector `x`."""

    def bitwise_and(self, other: Operand) -> Tensor:
        """Return the bitwise and of each pair of integers, or the logical and of bools."""

    def bitwise_and_(self, other: Operand) -> Tensor: ...
    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """Return each element of `input` shifted left by `other` bits. Zeros are shifted in."""

    def bitwise_left_shift_(self, other: Operand) -> Tensor: ...
    def bitwise_not(self) -> Tensor:
        """Return the bitwise complement of each integer in `input`, or the logical negation of each bool."""

    def bitwise_not_(self) -> Tensor: ...
    def bitwise_or(self, other: Operand) -> Tensor:
        """Return the bitwise or of each pair of integers, or the logical or of bools."""

    def bitwise_or_(self, other: Operand) -> Tensor: ...
    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """Return each element of `input` shifted right by `other` bits: input / 2 ** other, rounded down."""

    def bitwise_right_shift_(self, other: Operand) -> Tensor: ...
    def bitwise_xor(self, other: Operand) -> Tensor:
        """Return the bitwise exclusive or of each pair of integers, or the logical exclusive or of bools."""

    def bitwise_xor_(self, other: Operand) -> Tensor: ...
    def bmm(self, b: Tensor) -> Tensor:
        """Return the matrix products of two batches, [b, m, k] and [b, k, n]: [b, m, n]."""

    def bool(self) -> Tensor:
        """Return `x` converted to bool; `x` itself if it has that dtype. Nonzero elements become True."""

    def broadcast_to(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """Return a view of `x` broadcast to the given shape, as `expand`."""

    def byte(self) -> Tensor:
        """Return `x` converted to uint8; `x` itself if it has that dtype. Fractions are truncated."""

    def cauchy_(
        self, median: builtins.float = 0, sigma: builtins.float = 1, *, generator: Generator | None = None
    ) -> Tensor:
        """Write numbers from the Cauchy distribution with location `median` and scale `sigma` to `x`."""

    def ceil(self) -> Tensor:
        """Return the smallest integer that is not below each element of `x`."""

    def ceil_(self) -> Tensor: ...
    def char(self) -> Tensor:
        """Return `x` converted to int8; `x` itself if it has that dtype. Fractions are truncated."""

    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        """Return the lower triangular L with x = L L^T, or L^T if `upper` is true: [..., n, n]."""

    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        """Return the inverse of L L^T, or of L^T L if `upper` is true: [..., n, n]."""

    def cholesky_solve(self, L: Tensor, upper: builtins.bool = False) -> Tensor:
        """Return X with L L^T X = b, or L^T L X = b if `upper` is true: [..., n, k] and [..., n, n] -> [..., n, k]."""

    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return at most `chunks` views of `x` along `dim`, of equal size except that the last may be smaller."""

    def clamp(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor:
        """Return `x` limited to the range from `min` to `max`."""

    def clamp_(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor: ...
    def clamp_max(self, max: Operand) -> Tensor:
        """Return each element of `input`, or `max` where it is larger. Shapes broadcast."""

    def clamp_max_(self, max: Operand) -> Tensor: ...
    def clamp_min(self, min: Operand) -> Tensor:
        """Return each element of `input`, or `min` where it is smaller. Shapes broadcast."""

    def clamp_min_(self, min: Operand) -> Tensor: ...
    def clip(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor:
        """Return `x` limited to the range from `min` to `max`."""

    def clip_(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor: ...
    def clone(self, *, memory_format: Any = None) -> Tensor:
        """Return a copy of `x` with a separate storage. Gradients pass to `x`. `memory_format` is ignored."""

    def conj(self) -> Tensor:
        """Return `input` itself, since all tensors are real."""

    def conj_physical(self) -> Tensor:
        """Return `input` itself, since all tensors are real."""

    def contiguous(self, *, memory_format: Any = None) -> Tensor:
        """Return `x` itself if its elements are contiguous in row-major order, else a copy."""

    def copy_(self, value: Operand, non_blocking: builtins.bool = False) -> Tensor:
        """Write the values of `value`, converted to the dtype of `x` and broadcast, into `x`, and return `x`."""

    def copysign(self, other: Operand) -> Tensor:
        """Return the absolute value of each element of `input` with the sign of that of `other`. -0.0 is negative."""

    def copysign_(self, other: Operand) -> Tensor: ...
    def corrcoef(self) -> Tensor:
        """Return the matrix of correlation coefficients of the rows of `x`: [n, observations] -> [n, n]."""

    def cos(self) -> Tensor:
        """Return the cosine of each element of `x`, an angle in radians."""

    def cos_(self) -> Tensor: ...
    def cosh(self) -> Tensor:
        """Return the hyperbolic cosine of each element."""

    def cosh_(self) -> Tensor: ...
    def count_nonzero(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Return the number of nonzero elements over `dim` as int64. Raises IndexError for a dimension out of range."""

    def cov(
        self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
    ) -> Tensor:
        """Return the covariance matrix of the rows of `x`: [n, observations] -> [n, n]."""

    def cpu(self) -> Tensor:
        """Return `x` on the CPU; `x` itself if it is there already. Raises TraceError if `x` has no value yet."""

    def cross(self, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Return the cross product along `dim`, which has extent 3. The other dimensions broadcast."""

    def cuda(self, device: Any = None, non_blocking: builtins.bool = False) -> Tensor:
        """Raise DeviceAbsent, since there is no GPU."""

    def cummax(self, dim: builtins.int) -> ValuesIndices:
        """Return the running maximum of `x` along `dim`, and the index where it was last reached."""

    def cummin(self, dim: builtins.int) -> ValuesIndices:
        """Return the running minimum of `x` along `dim`, and the index where it was last reached."""

    def cumprod(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """Return the cumulative product of `x` along `dim`, in the shape of `x`."""

    def cumprod_(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor: ...
    def cumsum(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """Return the cumulative sum of `x` along `dim`, in the shape of `x`."""

    def cumsum_(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor: ...
    def data_ptr(self) -> builtins.int:
        """Return a number that is equal for tensors that start at the same element of the same storage."""

    def deg2rad(self) -> Tensor:
        """Return each element converted from degrees to radians. Integers become the default floating-point dtype."""

    def deg2rad_(self) -> Tensor: ...
    def det(self) -> Tensor:
        """Return the determinant of each matrix: [..., n, n] -> [...]."""

    def detach_(self) -> Tensor:
        """Detach `x` from the graph that computed it, in place, and return `x`."""

    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """Return a matrix with the vector `x` on a diagonal, or a copy of a diagonal of the matrix `x`."""

    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Return zeros with the last dimension of `x` on a diagonal of two new dimensions: [..., n] -> [..., m, m]."""

    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """Return a matrix of zeros with all elements of `x`, in order, on the diagonal `offset`."""

    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Return a view of a diagonal over the dimensions `dim1` and `dim2`."""

    def diagonal_scatter(
        self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
    ) -> Tensor:
        """Return a copy of `x` in which the diagonal is replaced by `src`."""

    def diff(
        self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None
    ) -> Tensor:
        """Return the `n`-th differences x[i + 1] - x[i] along `dim`: [..., e, ...] -> [..., e - n, ...]."""

    def digamma(self) -> Tensor:
        """Return the digamma function, the derivative of `lgamma`, of each element."""

    def digamma_(self) -> Tensor: ...
    def dim(self) -> builtins.int:
        """Return the number of dimensions."""

    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:
        """Return the `p`-norm of x - other over all elements, as a 0-d tensor. The shapes broadcast."""

    def div(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """Return a / b. Shapes broadcast; integers are converted to the default floating-point dtype."""

    def div_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def divide(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """Return a / b. Shapes broadcast; integers are converted to the default floating-point dtype."""

    def divide_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def dot(self, b: Tensor) -> Tensor:
        """Return the inner product of two vectors [n], as a 0-d tensor."""

    def double(self) -> Tensor:
        """Return `x` converted to float64; `x` itself if it has that dtype."""

    def dsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Return views of `x` split along dimension 2 into equal sections or at given indices."""

    def element_size(self) -> builtins.int:
        """Return the size of one element in bytes."""

    def eq(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a == b. Shapes broadcast; ShapeError is raised if they do not."""

    def eq_(self, b: Operand) -> Tensor: ...
    def equal(self, other: Tensor) -> builtins.bool:
        """Return whether both tensors have the same shape and equal elements, as a Python bool. NaN equals nothing."""

    def erf(self) -> Tensor:
        """Return the error function of each element: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x."""

    def erf_(self) -> Tensor: ...
    def erfc(self) -> Tensor:
        """Return 1 - erf(x) for each element x, accurate also where the result is close to 0."""

    def erfc_(self) -> Tensor: ...
    def erfinv(self) -> Tensor:
        """Return the y with erf(y) = x for each element x: inf for 1, -inf for -1, and NaN outside of [-1, 1]."""

    def erfinv_(self) -> Tensor: ...
    def exp(self) -> Tensor:
        """Return e to the power of each element of `x`."""

    def exp2(self) -> Tensor:
        """Return 2 to the power of each element."""

    def exp2_(self) -> Tensor: ...
    def exp_(self) -> Tensor: ...
    def expand(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """Return a view of `x` broadcast to a larger shape, given as `expand(2, 3)` or `expand((2, 3))`."""

    def expand_as(self, other: Tensor) -> Tensor:
        """Return a view of `x` broadcast to the shape of `other`. Raises ShapeError if it does not broadcast."""

    def expm1(self) -> Tensor:
        """Return exp(x) - 1 for each element, accurate also near 0."""

    def expm1_(self) -> Tensor: ...
    def exponential_(self, lambd: builtins.float = 1, *, generator: Generator | None = None) -> Tensor:
        """Write numbers from the exponential distribution with rate `lambd` to `x`, and return `x`."""

    def fill_(self, value: Operand) -> Tensor:
        """Write the number `value` to every element of `input`, and return `input`."""

    def fix(self) -> Tensor:
        """Return each element of `x` without its fractional part, that is, rounded towards 0."""

    def fix_(self) -> Tensor: ...
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Return `x` with the dimensions `start_dim` to `end_dim` merged into one."""

    def flip(self, *axes: Any, dims: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Return a copy of `x` with the order of elements reversed along the given dimensions, in the shape of `x`."""

    def fliplr(self) -> Tensor:
        """Return a copy of `x` [m, n, ...] with dimension 1 reversed."""

    def flipud(self) -> Tensor:
        """Return a copy of `x` [n, ...] with dimension 0 reversed. Raises ShapeError if `x` has no dimensions."""

    def float(self) -> Tensor:
        """Return `x` converted to float32; `x` itself if it has that dtype."""

    def float_power(self, exponent: Operand) -> Tensor:
        """Return `input` to the power `exponent`, computed in float64. Shapes broadcast."""

    def float_power_(self, exponent: Operand) -> Tensor: ...
    def floor(self) -> Tensor:
        """Return the largest integer that is not above each element of `x`."""

    def floor_(self) -> Tensor: ...
    def floor_divide(self, b: Operand) -> Tensor:
        """Return a / b rounded down. Shapes broadcast and dtypes are promoted."""

    def floor_divide_(self, b: Operand) -> Tensor: ...
    def fmax(self, other: Operand) -> Tensor:
        """Return the elementwise maximum. Shapes broadcast; if one element is NaN, the other is returned."""

    def fmin(self, other: Operand) -> Tensor:
        """Return the elementwise minimum. Shapes broadcast; if one element is NaN, the other is returned."""

    def fmod(self, b: Operand) -> Tensor:
        """Return the remainder of truncated division, which has the sign of a. Shapes broadcast."""

    def fmod_(self, b: Operand) -> Tensor: ...
    def frac(self) -> Tensor:
        """Return the fractional part x - trunc(x) of each element, with the sign of x."""

    def frac_(self) -> Tensor: ...
    def frexp(self) -> MantissaExponent:
        """Return the mantissa and the int32 exponent of each element."""

    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
        """Return the elements of `x` at `index` along `dim`, in the shape of `index`."""

    def gcd(self, other: Operand) -> Tensor:
        """Return the greatest common divisor of each pair of integers. It is not negative, and 0 for two zeros."""

    def gcd_(self, other: Operand) -> Tensor: ...
    def ge(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a >= b. Shapes broadcast; ShapeError is raised if they do not."""

    def ge_(self, b: Operand) -> Tensor: ...
    def geometric_(self, p: builtins.float, *, generator: Generator | None = None) -> Tensor:
        """Write numbers of trials until the first success, each with probability `p`, to `x`, and return `x`."""

    def geqrf(self) -> Reflectors:
        """Return R with the Householder vectors below its diagonal [..., m, n], and their factors [..., min(m, n)]."""

    def ger(self, vec2: Tensor) -> Tensor:
        """Return the outer product of two vectors: [m] and [n] give [m, n]. Raises ShapeError for other ranks."""

    @property
    def grad_fn(self) -> GradientFunction | None:
        """The function that computed this tensor; None for a leaf and for a tensor that requires no gradient."""

    def greater(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a > b. Shapes broadcast; ShapeError is raised if they do not."""

    def greater_(self, b: Operand) -> Tensor: ...
    def greater_equal(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a >= b. Shapes broadcast; ShapeError is raised if they do not."""

    def greater_equal_(self, b: Operand) -> Tensor: ...
    def gt(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a > b. Shapes broadcast; ShapeError is raised if they do not."""

    def gt_(self, b: Operand) -> Tensor: ...
    def half(self) -> Tensor:
        """Return `x` converted to float16; `x` itself if it has that dtype."""

    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """Return 0 where |x| <= `lambd`, else x, for each element x of `input`, in the shape of `input`."""

    def heaviside(self, values: Tensor) -> Tensor:
        """Return 0 where `input` is negative, 1 where it is positive, and `values` where it is 0. Shapes broadcast."""

    def heaviside_(self, values: Tensor) -> Tensor: ...
    def histc(
        self,
        bins: builtins.int = 100,
        min: builtins.bool | builtins.int | builtins.float = 0,
        max: builtins.bool | builtins.int | builtins.float = 0,
    ) -> Tensor:
        """Return the number of elements in each of `bins` equal bins from `min` to `max`."""

    def histogram(
        self,
        bins: builtins.int | Tensor,
        *,
        range: tuple[builtins.float, builtins.float] | None = None,
        weight: Tensor | None = None,
        density: builtins.bool = False,
    ) -> Histogram:
        """Return the number of elements in each bin [bins] and the edges of the bins [bins + 1], as a named tuple."""

    def hsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Return views of `x` split along dimension 1, or along dimension 0 if it is a vector."""

    def hypot(self, other: Operand) -> Tensor:
        """Return sqrt(input ** 2 + other ** 2) for each pair of elements, without overflow of the squares."""

    def hypot_(self, other: Operand) -> Tensor: ...
    def i0(self) -> Tensor:
        """Return the modified Bessel function of the first kind of order 0 of each element."""

    def i0_(self) -> Tensor: ...
    def igamma(self, other: Operand) -> Tensor:
        """Return the regularized lower incomplete gamma function P(input, other) of each pair of elements."""

    def igamma_(self, other: Operand) -> Tensor: ...
    def igammac(self, other: Operand) -> Tensor:
        """Return the regularized upper incomplete gamma function Q(input, other) of each pair of elements."""

    def igammac_(self, other: Operand) -> Tensor: ...
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Operand = 1) -> Tensor:
        """Return a copy of `x` with `alpha` * `source` added at the positions `index` along `dim`."""

    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Operand = 1) -> Tensor: ...
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """Return a copy of `x` with `source` written to the positions `index` along `dim`."""

    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor: ...
    def index_fill(self, dim: builtins.int, index: Tensor, value: Operand) -> Tensor:
        """Return a copy of `x` filled with `value` at the positions `index` along `dim`."""

    def index_fill_(self, dim: builtins.int, index: Tensor, value: Operand) -> Tensor: ...
    def index_put(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """Return a copy of `x` with `values` written to x[indices], or added if `accumulate` is true."""

    def index_put_(
        self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False
    ) -> Tensor: ...
    def index_reduce(
        self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """Return a copy of `x` with `source` combined at the positions `index` along `dim`."""

    def index_reduce_(
        self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor: ...
    def index_select(self, dim: builtins.int, index: Tensor) -> Tensor:
        """Return the slices of `x` at the positions `index` along `dim`: [..., len(index), ...]."""

    def inner(self, other: Tensor) -> Tensor:
        """Return the sums of products over the last dimensions: [..., n] and [*, n] give [..., *]."""

    def int(self) -> Tensor:
        """Return `x` converted to int32; `x` itself if it has that dtype. Fractions are truncated."""

    def inverse(self) -> Tensor:
        """Return the inverse of each matrix: [..., n, n] -> [..., n, n]. Raises ShapeError if a matrix is singular."""

    def is_complex(self) -> builtins.bool:
        """Return False, since there are no complex tensors."""

    def is_conj(self) -> builtins.bool:
        """Return False, since there are no complex tensors."""

    def is_contiguous(self, *, memory_format: Any = None) -> builtins.bool:
        """Return whether the elements of `x` are contiguous in memory in row-major order."""

    @property
    def is_cpu(self) -> builtins.bool:
        """Return whether `x` is on the CPU."""

    @property
    def is_cuda(self) -> builtins.bool:
        """Return False, since there is no GPU."""

    def is_floating_point(self) -> builtins.bool:
        """Return whether the dtype is floating-point."""

    @property
    def is_meta(self) -> builtins.bool:
        """Return whether `x` is on the device "meta", with a shape and no values."""

    def is_neg(self) -> builtins.bool:
        """Return False, since there are no complex tensors."""

    def is_nonzero(self) -> builtins.bool:
        """Return whether the single element is nonzero. Raises ShapeError if there are several."""

    def is_pinned(self, device: Any = None) -> builtins.bool:
        """Return False, since there is no GPU to copy to."""

    @property
    def is_quantized(self) -> builtins.bool:
        """Return False, since there are no quantized dtypes."""

    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Return whether both tensors have the same shape."""

    def is_set_to(self, tensor: Tensor) -> builtins.bool:
        """Return whether both tensors are the same view of the same storage."""

    def is_signed(self) -> builtins.bool:
        """Return whether the dtype has negative numbers."""

    @property
    def is_sparse(self) -> builtins.bool:
        """Return False, since all tensors are strided."""

    def isclose(
        self,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> Tensor:
        """Return a bool tensor that is true where |input - other| <= `atol` + `rtol` * |other|."""

    def isfinite(self) -> Tensor:
        """Return a bool tensor that is true where `x` is neither infinite nor NaN."""

    def isinf(self) -> Tensor:
        """Return a bool tensor that is true where `x` is inf or -inf, in the shape of `x`."""

    def isnan(self) -> Tensor:
        """Return a bool tensor that is true where `x` is NaN."""

    def isneginf(self) -> Tensor:
        """Return a bool tensor that is true where the element is negative infinity."""

    def isposinf(self) -> Tensor:
        """Return a bool tensor that is true where the element is positive infinity."""

    def isreal(self) -> Tensor:
        """Return a bool tensor of True in the shape of `input`, since there are no complex tensors."""

    @property
    def itemsize(self) -> builtins.int:
        """Return the size of one element in bytes."""

    def kron(self, other: Tensor) -> Tensor:
        """Return the Kronecker product: a tensor of blocks x[i, ...] * other."""

    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """Return the `k`-th smallest element along `dim`, counted from 1, and its int64 index."""

    @property
    def layout(self) -> str:
        """Return "torch.strided", the layout of every tensor."""

    def lcm(self, other: Operand) -> Tensor:
        """Return the least common multiple of each pair of integers. It is not negative, and 0 if one of them is."""

    def lcm_(self, other: Operand) -> Tensor: ...
    def ldexp(self, other: Tensor) -> Tensor:
        """Return input * 2**other. Shapes broadcast."""

    def ldexp_(self, other: Tensor) -> Tensor: ...
    def le(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a <= b. Shapes broadcast; ShapeError is raised if they do not."""

    def le_(self, b: Operand) -> Tensor: ...
    def lerp(self, b: Tensor, weight: Operand) -> Tensor:
        """Return a + weight * (b - a), linear interpolation. Shapes broadcast."""

    def lerp_(self, b: Tensor, weight: Operand) -> Tensor: ...
    def less(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a < b. Shapes broadcast; ShapeError is raised if they do not."""

    def less_(self, b: Operand) -> Tensor: ...
    def less_equal(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a <= b. Shapes broadcast; ShapeError is raised if they do not."""

    def less_equal_(self, b: Operand) -> Tensor: ...
    def lgamma(self) -> Tensor:
        """Return log(|gamma(x)|) for each element x: inf for 0 and for negative integers."""

    def lgamma_(self) -> Tensor: ...
    def log(self) -> Tensor:
        """Return the natural logarithm of each element of `x`: -inf for 0, and NaN for negative elements."""

    def log10(self) -> Tensor:
        """Return the logarithm to base 10 of each element: -inf for 0, and NaN for negative elements."""

    def log10_(self) -> Tensor: ...
    def log1p(self) -> Tensor:
        """Return log(1 + x) for each element, accurate also near 0: -inf for -1, and NaN below -1."""

    def log1p_(self) -> Tensor: ...
    def log2(self) -> Tensor:
        """Return the logarithm to base 2 of each element of `x`: -inf for 0, and NaN for negative elements."""

    def log2_(self) -> Tensor: ...
    def log_(self) -> Tensor: ...
    def log_normal_(
        self, mean: builtins.float = 1, std: builtins.float = 2, *, generator: Generator | None = None
    ) -> Tensor:
        """Write numbers whose logarithms are normal with `mean` and standard deviation `std` to `x`, and return `x`."""

    def log_softmax(self, dim: builtins.int, dtype: DType | None = None) -> Tensor:
        """Return log(softmax(x)) along `dim`, computed without overflow, in the shape of `x`."""

    def logaddexp(self, other: Operand) -> Tensor:
        """Return log(exp(input) + exp(other)) for each pair of elements, without overflow."""

    def logaddexp2(self, other: Operand) -> Tensor:
        """Return log2(2 ** input + 2 ** other) for each pair of elements, without overflow."""

    def logcumsumexp(self, dim: builtins.int) -> Tensor:
        """Return log(cumsum(exp(x))) along `dim` without overflow, in the shape of `x`."""

    def logdet(self) -> Tensor:
        """Return the logarithm of each determinant, NaN if it is negative, -inf if it is 0: [..., n, n] -> [...]."""

    def logical_and(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where both operands are nonzero. Shapes broadcast."""

    def logical_and_(self, b: Operand) -> Tensor: ...
    def logical_not(self) -> Tensor:
        """Return a bool tensor that is true where `x` is 0 or False."""

    def logical_not_(self) -> Tensor: ...
    def logical_or(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where at least one operand is nonzero. Shapes broadcast."""

    def logical_or_(self, b: Operand) -> Tensor: ...
    def logical_xor(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where exactly one operand is nonzero. Shapes broadcast."""

    def logical_xor_(self, b: Operand) -> Tensor: ...
    def logit(self, eps: builtins.float | None = None) -> Tensor:
        """Return log(x / (1 - x)) for each element x of `input`."""

    def logit_(self, eps: builtins.float | None = None) -> Tensor: ...
    def logsumexp(self, dim: builtins.int | Sequence[builtins.int] | None, keepdim: builtins.bool = False) -> Tensor:
        """Return log(sum(exp(x))) over `dim`, computed without overflow."""

    def long(self) -> Tensor:
        """Return `x` converted to int64; `x` itself if it has that dtype. Fractions are truncated."""

    def lt(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a < b. Shapes broadcast; ShapeError is raised if they do not."""

    def lt_(self, b: Operand) -> Tensor: ...
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """Return X with A X = b from the factorization of A by `lu_factor`: [..., n, k]."""

    @property
    def mH(self) -> Tensor:
        """Return a view with the last two dimensions exchanged: [..., m, n] -> [..., n, m]."""

    @property
    def mT(self) -> Tensor:
        """Return a view with the last two dimensions exchanged: [..., m, n] -> [..., n, m]."""

    def masked_fill(self, mask: Tensor, value: Operand) -> Tensor:
        """Return `x` with `value` where `mask` is true. `x` and `mask` broadcast; the dtype is that of `x`."""

    def masked_fill_(self, mask: Tensor, value: Operand) -> Tensor: ...
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """Return `x` with the elements of `source`, in order, written where `mask` is true."""

    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor: ...
    def masked_select(self, mask: Tensor) -> Tensor:
        """Return the elements of `x` where `mask` is true, as a vector. Both shapes broadcast."""

    def matmul(self, b: Tensor) -> Tensor:
        """Return the matrix product of `a` [..., m, k] and `b` [..., k, n]: [..., m, n]. Batch dimensions broadcast."""

    def matrix_exp(self) -> Tensor:
        """Return the matrix exponential of each matrix: [..., n, n] -> [..., n, n]."""

    def matrix_power(self, n: builtins.int) -> Tensor:
        """Return the `n`-th power of each matrix [..., n, n]."""

    def max(
        self, dim: Tensor | builtins.bool | builtins.int | builtins.float | None = None, keepdim: builtins.bool = False
    ) -> Any:
        """Return the maximum of all elements, or the maxima and their int64 indices along `dim` as a named tuple."""

    def maximum(self, b: Operand) -> Tensor:
        """Return the elementwise maximum. Shapes broadcast."""

    def mean(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """Return the arithmetic mean over `dim`. If `dtype` is given, `x` is converted to it first."""

    def median(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the median of all elements, or the medians along `dim` and their int64 indices as a named tuple."""

    def min(
        self, dim: Tensor | builtins.bool | builtins.int | builtins.float | None = None, keepdim: builtins.bool = False
    ) -> Any:
        """Return the minimum of all elements, or the minima and their int64 indices along `dim` as a named tuple."""

    def minimum(self, b: Operand) -> Tensor:
        """Return the elementwise minimum. Shapes broadcast."""

    def mm(self, b: Tensor) -> Tensor:
        """Return the matrix product of `a` [m, k] and `b` [k, n]: [m, n]."""

    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """Return the most frequent element along `dim`, and the last int64 index at which it occurs."""

    def moveaxis(
        self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]
    ) -> Tensor:
        """Return a view with the dimensions `source` moved to the positions `destination`."""

    def movedim(
        self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]
    ) -> Tensor:
        """Return a view with the dimensions `source` moved to the positions `destination`."""

    def msort(self) -> Tensor:
        """Return the elements sorted in ascending order along dimension 0, in the shape of `x`."""

    def mul(self, b: Operand) -> Tensor:
        """Return a * b. Shapes broadcast and dtypes are promoted; the product of bools is their logical and."""

    def mul_(self, b: Operand) -> Tensor: ...
    def multinomial(
        self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Return indices drawn with the weights in each row of `x`: int64 [num_samples] or [rows, num_samples]."""

    def multiply(self, b: Operand) -> Tensor:
        """Return a * b. Shapes broadcast and dtypes are promoted; the product of bools is their logical and."""

    def multiply_(self, b: Operand) -> Tensor: ...
    def mv(self, b: Tensor) -> Tensor:
        """Return the product of a matrix [m, k] and a vector [k]: [m]."""

    def mvlgamma(self, p: builtins.int) -> Tensor:
        """Return the logarithm of the multivariate gamma function of dimension `p`, for each element of `input`."""

    def nan_to_num(
        self,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Tensor:
        """Return `input` with NaN replaced by `nan` and infinities replaced by `posinf` and `neginf`."""

    def nan_to_num_(
        self,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Tensor: ...
    def nanmean(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """Return the mean over `dim` of the elements that are not NaN; NaN if there are none."""

    def nanmedian(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the median of the elements that are not NaN, or medians along `dim` and their int64 indices."""

    def nanquantile(
        self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """Return quantiles as `quantile` does, ignoring NaN. A row of NaN gives NaN."""

    def nansum(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """Return the sum over `dim`, with NaN counted as 0."""

    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """Return a view of `length` elements along `dim`, from `start` on. A negative `start` counts from the end."""

    def narrow_copy(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of `narrow` with the same arguments as a copy with a separate storage."""

    @property
    def nbytes(self) -> builtins.int:
        """Return the size of all elements in bytes."""

    def ndimension(self) -> builtins.int:
        """Return the number of dimensions."""

    def ne(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a != b. Shapes broadcast; ShapeError is raised if they do not."""

    def ne_(self, b: Operand) -> Tensor: ...
    def neg(self) -> Tensor:
        """Return -x for each element, in the shape of `x`. Raises ShapeError for bools."""

    def neg_(self) -> Tensor: ...
    def negative(self) -> Tensor:
        """Return -x for each element, in the shape of `x`. Raises ShapeError for bools."""

    def negative_(self) -> Tensor: ...
    def nelement(self) -> builtins.int:
        """Return the number of elements."""

    def new(self, *given: Any, device: Any = None, size: Any = None) -> Tensor:
        """Return a tensor of the dtype of `x` from a shape or from data, as the legacy constructors do."""

    def new_empty(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """Return `empty` of the other arguments, with the dtype and the device of this tensor."""

    def new_full(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """Return `full` of the other arguments, with the dtype and the device of this tensor."""

    def new_ones(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """Return `ones` of the other arguments, with the dtype and the device of this tensor."""

    def new_tensor(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """Return `tensor` of the other arguments, with the dtype and the device of this tensor."""

    def new_zeros(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """Return `zeros` of the other arguments, with the dtype and the device of this tensor."""

    def nextafter(self, other: Tensor) -> Tensor:
        """Return the next representable number after `input` towards `other`. Shapes broadcast."""

    def nextafter_(self, other: Tensor) -> Tensor: ...
    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """Return the indices of all nonzero elements: int64 [count, dimensions]."""

    def norm(
        self,
        p: builtins.float | str | None = "fro",
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        dtype: DType | None = None,
    ) -> Tensor:
        """Return the `p`-norm of all elements, or over `dim`, as `vector_norm` with order `p`."""

    def normal_(
        self, mean: builtins.float = 0.0, std: builtins.float = 1.0, generator: Generator | None = None
    ) -> Tensor:
        """Write normal random numbers with `mean` and standard deviation `std` to `x`, and return `x`."""

    def not_equal(self, b: Operand) -> Tensor:
        """Return a bool tensor that is true where a != b. Shapes broadcast; ShapeError is raised if they do not."""

    def not_equal_(self, b: Operand) -> Tensor: ...
    def numel(self) -> builtins.int:
        """Return the number of elements."""

    def ormqr(self, tau: Tensor, other: Tensor, left: builtins.bool = True, transpose: builtins.bool = False) -> Tensor:
        """Return Q @ other, for the Q that `geqrf` describes by `a` and `tau`: [..., m, n]."""

    def outer(self, b: Tensor) -> Tensor:
        """Return the outer product of two vectors: a [m] and b [n] give [m, n] with a[i] * b[j]."""

    def permute(self, *order: Any, dims: Sequence[builtins.int] | None = None) -> Tensor:
        """Return a view with the dimensions in the given order, as `permute(2, 0, 1)` or `permute((2, 0, 1))`."""

    def pin_memory(self, device: Any = None) -> Tensor:
        """Return `x` itself, since there is no GPU to copy to."""

    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """Return the Moore-Penrose pseudoinverse of each matrix: [..., m, n] -> [..., n, m]."""

    def polygamma(self, input: Tensor | builtins.int) -> Tensor:
        """Return the `n`-th derivative of the digamma function for each element of `input`, in its shape."""

    def polygamma_(self, input: Tensor | builtins.int) -> Tensor: ...
    def positive(self) -> Tensor:
        """Return `input` itself. Raises ShapeError for bools."""

    def pow(self, exponent: Operand) -> Tensor:
        """Return `a` to the power `exponent`. Shapes broadcast and dtypes are promoted; integers stay integers."""

    def pow_(self, exponent: Operand) -> Tensor: ...
    def prelu(self, weight: Tensor) -> Tensor:
        """Return x if x > 0, else `weight` * x, for each element x of `input`, in the shape of `input`."""

    def prod(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """Return the product over `dim`. Integers and bools are multiplied in int64 unless `dtype` is given."""

    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """Return a copy of `x` with `source` written to the positions `index` of the flattened tensor."""

    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor: ...
    def qr(self, some: builtins.bool | str = True, *, mode: str = "reduced") -> QR:
        """Return Q with orthonormal columns and the upper triangular R, with A = Q R."""

    def quantile(
        self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """Return the `q`-quantiles of all elements, or along `dim`, which is removed unless `keepdim` is true."""

    def rad2deg(self) -> Tensor:
        """Return each element converted from radians to degrees. Integers become the default floating-point dtype."""

    def rad2deg_(self) -> Tensor: ...
    def random_(self, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
        """Write uniform random integers to `x`, and return `x`."""

    def ravel(self) -> Tensor:
        """Return all elements as a vector: a view if `x` is contiguous, else a copy."""

    def reciprocal(self) -> Tensor:
        """Return 1 / x for each element: inf for 0, and -inf for -0.0."""

    def reciprocal_(self) -> Tensor: ...
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(gradient)` in backward when the gradient of this tensor is complete."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(t)` after backward has added to `t.grad`. Return a handle that removes the hook."""

    def relu(self) -> Tensor:
        """Return max(x, 0) for each element, in the dtype of `x`. NaN stays NaN, and bools raise TypeUnsupported."""

    def relu_(self) -> Tensor: ...
    def remainder(self, b: Operand) -> Tensor:
        """Return the remainder of floor division, a - b * floor(a / b), which has the sign of b. Shapes broadcast."""

    def remainder_(self, b: Operand) -> Tensor: ...
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """Return `x` with each slice along `dim` whose `p`-norm exceeds `maxnorm` scaled down to that norm."""

    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor: ...
    def repeat(self, *args: Any, repeats: Sequence[builtins.int] | None = None) -> Tensor:
        """Return `x` repeated `repeats` times along each dimension, as `repeat(2, 3)`, `repeat((2, 3))` or by name."""

    def repeat_interleave(
        self,
        repeats: builtins.int | Tensor | None = None,
        dim: builtins.int | None = None,
        *,
        output_size: builtins.int | None = None,
    ) -> Tensor:
        """Return `x` with each element along `dim` repeated `repeats` times in a row."""

    def reshape(self, *size: Any, shape: Sequence[builtins.int] | None = None) -> Tensor:
        """Return `x` in another shape: a view if strides for it exist, else a copy. One extent may be -1."""

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return `x` in the shape of `other`, as `reshape`. Raises ShapeError if the number of elements differs."""

    def resolve_conj(self) -> Tensor:
        """Return `input` itself, since all tensors are real."""

    def resolve_neg(self) -> Tensor:
        """Return `input` itself, since all tensors are real."""

    def retain_grad(self) -> None:
        """Make backward also set `.grad` of this tensor, which is not a leaf. It does nothing for a leaf."""

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether `retain_grad` was called on this tensor and it is not a leaf."""

    def roll(
        self, shifts: builtins.int | Sequence[builtins.int], dims: builtins.int | Sequence[builtins.int] | None = None
    ) -> Tensor:
        """Return a copy of `x` with the elements shifted cyclically along `dims`, in the shape of `x`."""

    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = ...) -> Tensor:
        """Return `x` rotated by `k` quarter turns in the plane of `dims`."""

    def round(self, *, decimals: builtins.int | None = None) -> Tensor:
        """Return each element rounded to the nearest integer, or to `decimals` decimals, with ties to even."""

    def round_(self, *, decimals: builtins.int | None = None) -> Tensor: ...
    def rsqrt(self) -> Tensor:
        """Return 1 / sqrt(x) for each element: inf for 0, and NaN for negative elements."""

    def rsqrt_(self) -> Tensor: ...
    def rsub(self, b: Operand, *, alpha: Operand = 1) -> Tensor:
        """Return b - alpha * a. Shapes broadcast and dtypes are promoted. Raises ShapeError for a bool operand."""

    def scatter(
        self,
        dim: builtins.int,
        index: Tensor,
        src: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        value: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        reduce: str = "",
    ) -> Tensor:
        """Return a copy of `x` with `src` written to the positions `index` along `dim`."""

    def scatter_(
        self,
        dim: builtins.int,
        index: Tensor,
        src: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        value: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        reduce: str = "",
    ) -> Tensor: ...
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """Return a copy of `x` with `src` added at the positions `index` along `dim`."""

    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor: ...
    def scatter_reduce(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """Return a copy of `x` with `src` combined at the positions `index` along `dim`."""

    def scatter_reduce_(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor: ...
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return a view of `x` at `index` along `dim`, without that dimension. A negative index counts from the end."""

    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return a copy of `x` with the slice at `index` along `dim` replaced by `src`."""

    def sgn(self) -> Tensor:
        """Return `sign(input)`. The vendor's front end refuses its gradient under this name."""

    def sgn_(self) -> Tensor: ...
    def short(self) -> Tensor:
        """Return `x` converted to int16; `x` itself if it has that dtype. Fractions are truncated."""

    def sigmoid(self) -> Tensor:
        """Return the logistic function 1 / (1 + exp(-x)) of each element of `x`."""

    def sigmoid_(self) -> Tensor: ...
    def sign(self) -> Tensor:
        """Return -1, 0 or 1 by the sign of each element, in the shape and dtype of `x`."""

    def sign_(self) -> Tensor: ...
    def signbit(self) -> Tensor:
        """Return a bool tensor that is true where the sign bit is set, including -0.0."""

    def sin(self) -> Tensor:
        """Return the sine of each element of `x`, an angle in radians."""

    def sin_(self) -> Tensor: ...
    def sinc(self) -> Tensor:
        """Return sin(pi * x) / (pi * x), and 1 where x is 0, for each element x of `input`."""

    def sinc_(self) -> Tensor: ...
    def sinh(self) -> Tensor:
        """Return the hyperbolic sine of each element."""

    def sinh_(self) -> Tensor: ...
    def size(self, dim: builtins.int | None = None) -> Any:
        """Return the shape, or the extent of dimension `dim`."""

    def slice_scatter(
        self,
        src: Tensor,
        dim: builtins.int = 0,
        start: builtins.int | None = None,
        end: builtins.int | None = None,
        step: builtins.int = 1,
    ) -> Tensor:
        """Return a copy of `x` with a slice along `dim` replaced by `src`."""

    def slogdet(self) -> SignLog:
        """Return the sign of each determinant and the logarithm of its absolute value."""

    def softmax(self, dim: builtins.int, dtype: DType | None = None) -> Tensor:
        """Return exp(x) divided by its sum along `dim`, in the shape of `x`."""

    def sort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool | None = None
    ) -> ValuesIndices:
        """Return the elements sorted along `dim`, and their original int64 indices, both in the shape of `x`."""

    def split(
        self,
        split_size_or_sections: builtins.int | Sequence[builtins.int] | Tensor | None = None,
        dim: builtins.int = 0,
        *,
        split_size: builtins.int | Sequence[builtins.int] | Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return views of consecutive pieces of `x` along `dim`."""

    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return views of consecutive pieces of `x` along `dim` with the sizes `split_sizes`."""

    def sqrt(self) -> Tensor:
        """Return the square root of each element of `x`: NaN for negative elements."""

    def sqrt_(self) -> Tensor: ...
    def square(self) -> Tensor:
        """Return x * x for each element, in the shape of `x`."""

    def square_(self) -> Tensor: ...
    def squeeze(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Return a view without the dimensions of extent 1, or without those in `dim` that have extent 1."""

    def std(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """Return the standard deviation over `dim`, the square root of `var` with the same parameters."""

    def stft(
        self,
        n_fft: builtins.int,
        hop_length: builtins.int | None = None,
        win_length: builtins.int | None = None,
        window: Tensor | None = None,
        center: builtins.bool = True,
        pad_mode: str = "reflect",
        normalized: builtins.bool = False,
        onesided: builtins.bool | None = None,
        return_complex: builtins.bool | None = None,
    ) -> Tensor:
        """Return the short-time Fourier transform of signals."""

    def storage_offset(self) -> builtins.int:
        """Return the index of the first element of `x` in its storage."""

    def stride(self, dim: builtins.int | None = None) -> Any:
        """Return the distance in storage, in elements, of neighbours along each dimension as a tuple."""

    def sub(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor:
        """Return a - alpha * b. Shapes broadcast and dtypes are promoted."""

    def sub_(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor: ...
    def subtract(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor:
        """Return a - alpha * b. Shapes broadcast and dtypes are promoted."""

    def subtract_(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor: ...
    def sum(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """Return the sum over `dim`. Integers and bools are summed in int64 unless `dtype` is given."""

    def sum_to_size(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """Return `x` summed over the dimensions that broadcasting `size` to the shape of `x` would expand."""

    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """Return a view with the dimensions `axis0` and `axis1` exchanged."""

    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Return a view with the dimensions `dim0` and `dim1` exchanged."""

    def t(self) -> Tensor:
        """Return a view of a matrix transposed; a tensor with fewer dimensions is returned itself."""

    def take(self, index: Tensor) -> Tensor:
        """Return the elements of `x` at the positions `index` of the flattened tensor, in the shape of `index`."""

    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Return the elements of `x` at `indices` along `dim`, as `gather`, with the other dimensions broadcast."""

    def tan(self) -> Tensor:
        """Return the tangent of each element of `x`, an angle in radians."""

    def tan_(self) -> Tensor: ...
    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent of each element of `x`."""

    def tanh_(self) -> Tensor: ...
    def tensor_split(
        self,
        indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor | None = None,
        dim: builtins.int = 0,
        *,
        indices: Sequence[builtins.int] | None = None,
        sections: builtins.int | None = None,
    ) -> tuple[Tensor, ...]:
        """Return views of `x` split along `dim` into nearly equal sections, or at given indices."""

    def tile(self, *args: Any, dims: Sequence[builtins.int] | None = None) -> Tensor:
        """Return `x` repeated `dims` times along each dimension, given as `tile(x, 2, 3)`."""

    def to(
        self,
        *args: Any,
        dtype: DType | None = None,
        device: Any = None,
        non_blocking: builtins.bool = False,
        copy: builtins.bool = False,
        memory_format: Any = None,
        other: Tensor | None = None,
    ) -> Tensor:
        """Return `x` with another dtype, on another device, or both; `x` itself if nothing changes."""

    def topk(
        self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True
    ) -> ValuesIndices:
        """Return the `k` largest elements along `dim` in descending order, and their int64 indices."""

    def trace(self) -> Tensor:
        """Return the sum of the main diagonal of a matrix [m, n], as a 0-d tensor."""

    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Return a view with the dimensions `dim0` and `dim1` exchanged."""

    def triangular_solve(
        self,
        A: Tensor,
        upper: builtins.bool = True,
        transpose: builtins.bool = False,
        unitriangular: builtins.bool = False,
    ) -> Solution:
        """Return X with A X = b, or A^T X = b if `transpose` is true, and a copy of `A`."""

    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """Return each matrix [m, n] of `x` with zeros above a diagonal, in the shape of `x`."""

    def tril_(self, diagonal: builtins.int = 0) -> Tensor: ...
    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """Return each matrix [m, n] of `x` with zeros below a diagonal, in the shape of `x`."""

    def triu_(self, diagonal: builtins.int = 0) -> Tensor: ...
    def true_divide(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """Return a / b. Shapes broadcast; integers are converted to the default floating-point dtype."""

    def true_divide_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def trunc(self) -> Tensor:
        """Return each element of `x` without its fractional part, that is, rounded towards 0."""

    def trunc_(self) -> Tensor: ...
    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """Return the legacy name of the dtype, such as "torch.FloatTensor"."""

    def type_as(self, other: Tensor) -> Tensor:
        """Return `x` converted to the dtype of `other`; `x` itself if it has that dtype."""

    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return a view of `x` at each index along `dim`, without that dimension."""

    def unflatten(self, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
        """Return a view with dimension `dim` split into the extents `sizes`, one of which may be -1."""

    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Return a view of all windows of `size` elements along `dimension`, `step` apart."""

    def uniform_(self, a: builtins.float = 0.0, b: builtins.float = 1.0, generator: Generator | None = None) -> Tensor:
        """Write uniform random numbers from `a` to `b` to `x`, and return `x`."""

    def unique(
        self,
        sorted: builtins.bool = True,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """Return the distinct elements in ascending order, as a vector, or the distinct slices along `dim`."""

    def unique_consecutive(
        self,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """Return the elements without those equal to their predecessor, as a vector, or the slices along `dim`."""

    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return `chunk(x, chunks, dim)`: at most `chunks` views of equal size."""

    def unsafe_split(
        self, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = 0
    ) -> tuple[Tensor, ...]:
        """Return `split(x, split_size, dim)`: views of consecutive pieces."""

    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """Return a view with a new dimension of extent 1 at position `dim`."""

    def var(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """Return the variance over `dim`."""

    def vdot(self, other: Tensor) -> Tensor:
        """Return the inner product of two vectors [n], as a 0-d tensor."""

    def view(self, *args: Any, size: Sequence[builtins.int] | None = None, dtype: DType | None = None) -> Tensor:
        """Return `x` in another shape over the same storage, as `Tensor.view`. One extent may be -1."""

    def view_as(self, other: Tensor) -> Tensor:
        """Return a view of `x` in the shape of `other`. Raises as `checked_view` does."""

    def vsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Return views of `x` split along dimension 0 into equal sections or at given indices."""

    def where(self, condition: Tensor, other: Operand) -> Tensor:
        """Return `x` where `condition` is true, else `other`."""

    def xlogy(self, other: Operand) -> Tensor:
        """Return x * log(y), and 0 where x is 0, for x (`input`) and y (`other`). Shapes broadcast."""

    def xlogy_(self, other: Operand) -> Tensor: ...
    def xpu(self, device: Any = None, non_blocking: builtins.bool = False) -> Tensor:
        """Raise DeviceAbsent, since there is no GPU."""

    def zero_(self) -> Tensor:
        """Write 0 to every element of `input`, and return `input`."""
