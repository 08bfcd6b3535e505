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
        """A matrix transposed, as a view: [m, n] -> [n, m]. Raises ShapeError for other ranks."""

    @property
    def T(self) -> Tensor:
        """The dimensions in the opposite order."""

    def __abs__(self) -> Tensor:
        """The absolute value. Of each element of x, in its shape."""

    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: builtins.bool = False) -> Tensor:
        """The tensor of what a ufunc of NumPy made of x: `np.sin(x)` is a Tensor, outside of any graph."""

    def __contains__(self, element: Any) -> builtins.bool:
        """Whether an element of x equals a number, or the one at its place in a tensor that broadcasts."""

    def __copy__(self) -> Tensor:
        """Return a leaf that shares the storage and the attributes of x. It requires a gradient if x does."""

    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Tensor:
        """Return a leaf over a copy of the whole storage of x, with copies of the gradient and the attributes."""

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule over the memory of x, which the other library shares as NumPy does."""

    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:
        """The CPU."""

    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor:
        """The part of x that `index` names: a view, or a copy if tensors choose."""

    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand) -> Tensor: ...
    def __iand__(self, other: Operand) -> Tensor: ...
    def __ifloordiv__(self, other: Operand) -> Tensor: ...
    def __ilshift__(self, other: Operand) -> Tensor: ...
    def __imatmul__(self, other: Operand) -> Tensor: ...
    def __imod__(self, other: Operand) -> Tensor: ...
    def __imul__(self, other: Operand) -> Tensor: ...
    def __invert__(self) -> Tensor:
        """Each bit inverted, in the shape of x; for bool the negation. Raises ShapeError for floating-point numbers."""

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
        """The negative of each element, in the shape of x. Raises ShapeError for booleans."""

    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """x, also where it is a boolean."""

    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return what `pickle` writes: elements that x shows, their type, attributes, and whether x requires grad."""

    def __repr__(self) -> str:
        """Return the tensor as text, like PyTorch. Raises TraceError inside a step that is traced for the wafer."""

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
    def __setitem__(self, index: Any, value: Operand) -> None:
        """Write `value`, broadcast, to the part of x that `index` names."""

    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    def _repr_html_(self) -> str:
        """Return the tensor as HTML for a notebook: type, heat map (if it has several elements), and text."""

    def abs(self) -> Tensor:
        """The absolute value. Of each element of x, in its shape."""

    def abs_(self) -> Tensor: ...
    def absolute(self) -> Tensor:
        """The absolute value. Of each element of x, in its shape."""

    def absolute_(self) -> Tensor: ...
    def acos(self) -> Tensor:
        """The angle whose cosine is x. Of each element, in the shape of x."""

    def acos_(self) -> Tensor: ...
    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosine. Of each element, in the shape of x."""

    def acosh_(self) -> Tensor: ...
    def add(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor:
        """a + alpha * b, broadcast; of old `add(a, alpha, b)`. Raises ShapeError for an alpha of another kind."""

    def add_(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor: ...
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x [m, n] + alpha * (the sum of the products of [b, m, k] and [b, k, n])."""

    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addcdiv(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor:
        """x + value * a / b, broadcast; of old `addcdiv(x, value, a, b)`. Raises ShapeError for integers."""

    def addcdiv_(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor: ...
    def addcmul(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor:
        """x + value * a * b, broadcast; of old `addcmul(x, value, a, b)`."""

    def addcmul_(self, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor: ...
    def addmm(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x + alpha * (a @ b): x broadcasts to [m, n], [m, k] @ [k, n]. Raises ShapeError as `mm` does."""

    def addmm_(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x [m] + alpha * (mat [m, k] @ vec [k]). Raises ShapeError if extents do not fit."""

    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x [m, n] + alpha * (the outer product of [m] and [n]). Raises ShapeError if extents do not fit."""

    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def all(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether every element over `dim` is not zero: bool, but uint8 answers in its own type."""

    def allclose(
        self,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> builtins.bool:
        """Whether `isclose` holds everywhere; operands broadcast. Raises ShapeError as it does."""

    def amax(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The largest element over `dim`; equal ones share the gradient."""

    def amin(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The smallest element over `dim`; equal ones share the gradient."""

    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Extremes:
        """The smallest and the largest element over `dim`, without it; equal ones share the gradient."""

    def angle(self) -> Tensor:
        """0 for elements that are not negative, pi for the others; NaN stays."""

    def any(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether some element over `dim` is not zero: bool, but uint8 answers in its own type."""

    def arccos(self) -> Tensor:
        """The angle whose cosine is x. Of each element, in the shape of x."""

    def arccos_(self) -> Tensor: ...
    def arccosh(self) -> Tensor:
        """The inverse hyperbolic cosine. Of each element, in the shape of x."""

    def arccosh_(self) -> Tensor: ...
    def arcsin(self) -> Tensor:
        """The angle whose sine is x. Of each element, in the shape of x; integers become the default floating type."""

    def arcsin_(self) -> Tensor: ...
    def arcsinh(self) -> Tensor:
        """The inverse hyperbolic sine. Of each element, in the shape of x."""

    def arcsinh_(self) -> Tensor: ...
    def arctan(self) -> Tensor:
        """The angle whose tangent is x. Of each element, in the shape of x."""

    def arctan2(self, b: Tensor) -> Tensor:
        """The angle of the point (b, a) from -pi to pi, broadcast; integers become the default floating type."""

    def arctan2_(self, b: Tensor) -> Tensor: ...
    def arctan_(self) -> Tensor: ...
    def arctanh(self) -> Tensor:
        """The inverse hyperbolic tangent. Of each element, in the shape of x."""

    def arctanh_(self) -> Tensor: ...
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The place of the largest element along `dim` or in the flat order, int64; the first of equal ones."""

    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The place of the smallest element along `dim` or in the flat order, int64; the first of equal ones."""

    def argsort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool | None = None
    ) -> Tensor:
        """Where the elements in order along a dimension are: int64[...]."""

    def argwhere(self) -> Tensor:
        """`nonzero` as int64[count, dimensions]."""

    def as_strided(
        self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None
    ) -> Tensor:
        """A view [size] of the storage of x with any strides and offset."""

    def as_strided_scatter(
        self,
        src: Tensor,
        size: Sequence[builtins.int],
        stride: Sequence[builtins.int],
        storage_offset: builtins.int | None = None,
    ) -> Tensor:
        """A copy of x with the elements of a strided view [size] replaced by src."""

    def as_subclass(self, cls: builtins.type[Tensor]) -> Tensor:
        """The same tensor as one of a class of tensors."""

    def asin(self) -> Tensor:
        """The angle whose sine is x. Of each element, in the shape of x; integers become the default floating type."""

    def asin_(self) -> Tensor: ...
    def asinh(self) -> Tensor:
        """The inverse hyperbolic sine. Of each element, in the shape of x."""

    def asinh_(self) -> Tensor: ...
    def atan(self) -> Tensor:
        """The angle whose tangent is x. Of each element, in the shape of x."""

    def atan2(self, b: Tensor) -> Tensor:
        """The angle of the point (b, a) from -pi to pi, broadcast; integers become the default floating type."""

    def atan2_(self, b: Tensor) -> Tensor: ...
    def atan_(self) -> Tensor: ...
    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangent. Of each element, in the shape of x."""

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
        """beta * x + alpha * (a @ b) for stacks: x broadcasts to [b, m, n]."""

    def baddbmm_(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def bernoulli(self, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
        """Ones with the probabilities that x holds (or with p), zeros elsewhere, in the shape of x."""

    def bernoulli_(self, p: builtins.float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Write ones with probability p, zeros elsewhere; p broadcasts to x. Raises ShapeError for p outside 0..1."""

    def bfloat16(self) -> Tensor:
        """x as bfloat16."""

    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """How often each number from 0 on occurs in a vector [n], or the sum of its weights: [largest + 1]."""

    def bitwise_and(self, other: Operand) -> Tensor:
        """Each bit that both have. Operands broadcast. Raises ShapeError for floating-point numbers."""

    def bitwise_and_(self, other: Operand) -> Tensor: ...
    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """The bits moved towards the sign; 0 moves in. Operands broadcast."""

    def bitwise_left_shift_(self, other: Operand) -> Tensor: ...
    def bitwise_not(self) -> Tensor:
        """Each bit inverted, in the shape of x; for bool the negation. Raises ShapeError for floating-point numbers."""

    def bitwise_not_(self) -> Tensor: ...
    def bitwise_or(self, other: Operand) -> Tensor:
        """Each bit that one of them has. Operands broadcast. Raises ShapeError for floating-point numbers."""

    def bitwise_or_(self, other: Operand) -> Tensor: ...
    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """The bits moved from the sign, which moves in. Operands broadcast."""

    def bitwise_right_shift_(self, other: Operand) -> Tensor: ...
    def bitwise_xor(self, other: Operand) -> Tensor:
        """Each bit that exactly one has. Operands broadcast. Raises ShapeError for floating-point numbers."""

    def bitwise_xor_(self, other: Operand) -> Tensor: ...
    def bmm(self, b: Tensor) -> Tensor:
        """The products of two stacks: [b, m, k] @ [b, k, n] -> [b, m, n]. Raises ShapeError as `mm` does."""

    def bool(self) -> Tensor:
        """x as bool."""

    def broadcast_to(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """x expanded to a shape, as a view. Raises ShapeError unless it broadcasts."""

    def byte(self) -> Tensor:
        """x as uint8."""

    def cauchy_(
        self, median: builtins.float = 0, sigma: builtins.float = 1, *, generator: Generator | None = None
    ) -> Tensor:
        """Write numbers of the Cauchy distribution. Raises TraceError in a step."""

    def ceil(self) -> Tensor:
        """The smallest integer that is not below x. Of each element of x, in its shape and type."""

    def ceil_(self) -> Tensor: ...
    def char(self) -> Tensor:
        """x as int8."""

    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        """L with x = L L^T, or its transpose if `upper`: [..., n, n]."""

    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        """The inverse of L L^T, or of L^T L if `upper`: [..., n, n]. Raises ShapeError for other shapes."""

    def cholesky_solve(self, L: Tensor, upper: builtins.bool = False) -> Tensor:
        """X with L L^T X = b, or L^T L X = b if `upper`: [..., n, k] and [..., n, n] -> [..., n, k]."""

    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` views of pieces of equal size, the last perhaps shorter. Raises ShapeError for none."""

    def clamp(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor:
        """x limited to min..max, which broadcast; either bound may be missing. Raises ShapeError if both are."""

    def clamp_(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor: ...
    def clamp_max(self, max: Operand) -> Tensor:
        """x, or `max` where x is above it, broadcast."""

    def clamp_max_(self, max: Operand) -> Tensor: ...
    def clamp_min(self, min: Operand) -> Tensor:
        """x, or `min` where x is below it, broadcast."""

    def clamp_min_(self, min: Operand) -> Tensor: ...
    def clip(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor:
        """x limited to min..max, which broadcast; either bound may be missing. Raises ShapeError if both are."""

    def clip_(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor: ...
    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A tensor of its own with the same values, shape and type; gradients pass."""

    def conj(self) -> Tensor:
        """x itself: it is real."""

    def conj_physical(self) -> Tensor:
        """x itself: it is real."""

    def contiguous(self, *, memory_format: Any = None) -> Tensor:
        """x itself, or a copy if its elements do not lie in order."""

    def copy_(self, value: Operand, non_blocking: builtins.bool = False) -> Tensor:
        """Write the values of another tensor, converted and broadcast."""

    def copysign(self, other: Operand) -> Tensor:
        """The size of the first operand with the sign of the second. Operands broadcast."""

    def copysign_(self, other: Operand) -> Tensor: ...
    def corrcoef(self) -> Tensor:
        """The correlations of the rows: [n, observations] -> [n, n], or a number for a vector. Raises as `cov` does."""

    def cos(self) -> Tensor:
        """The cosine. Of each element of x, in its shape."""

    def cos_(self) -> Tensor: ...
    def cosh(self) -> Tensor:
        """The hyperbolic cosine. Of each element, in the shape of x; integers become the default floating type."""

    def cosh_(self) -> Tensor: ...
    def count_nonzero(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """How many elements are not zero, as int64 without the dimensions `dim`."""

    def cov(
        self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
    ) -> Tensor:
        """The covariances of the rows: [n, observations] -> [n, n], or a number for a vector."""

    def cpu(self) -> Tensor:
        """x on the CPU."""

    def cross(self, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """The cross product along a dimension of extent 3, broadcast."""

    def cuda(self, device: Any = None, non_blocking: builtins.bool = False) -> Tensor:
        """Raises DeviceAbsent: there is no GPU."""

    def cummax(self, dim: builtins.int) -> ValuesIndices:
        """The largest element so far along a dimension, and its last place: two of [...]."""

    def cummin(self, dim: builtins.int) -> ValuesIndices:
        """The smallest element so far along a dimension, and its last place: two of [...]."""

    def cumprod(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """The product of all elements so far along a dimension: [...] to [...]; integers and bool multiply in int64."""

    def cumprod_(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor: ...
    def cumsum(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """The sum of all elements so far along a dimension: [...] to [...]; integers and bool add up in int64."""

    def cumsum_(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor: ...
    def data_ptr(self) -> builtins.int:
        """A number that two tensors share exactly if they start at the same element of the same storage."""

    def deg2rad(self) -> Tensor:
        """Degrees as radians, of each element; integers become the default floating type."""

    def deg2rad_(self) -> Tensor: ...
    def det(self) -> Tensor:
        """The determinant of each matrix: [..., n, n] -> [...]. Raises ShapeError for matrices that are not square."""

    def detach_(self) -> Tensor:
        """x itself, from now on without the graph that computed it. Raises RuntimeError for a view."""

    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """The matrix with the vector x [n] on a diagonal, or a copy of a diagonal of the matrix x."""

    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Zeros with the last dimension of x on a diagonal of two new dimensions: [..., n] -> [..., m, m]."""

    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """The matrix [n, n] with all elements of x on a diagonal."""

    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """A view of a diagonal over two dimensions, which becomes the last dimension: [..., m, n] -> [..., k]."""

    def diagonal_scatter(
        self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
    ) -> Tensor:
        """A copy of x with a diagonal replaced by src [..., k]. Raises ShapeError for another shape of src."""

    def diff(
        self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None
    ) -> Tensor:
        """Differences of neighbours along a dimension, n times: [..., e, ...] -> [..., e - n, ...]."""

    def digamma(self) -> Tensor:
        """The derivative of lgamma. Of each element, in the shape of x; integers become the default floating type."""

    def digamma_(self) -> Tensor: ...
    def dim(self) -> builtins.int:
        """The number of dimensions."""

    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:
        """The p-norm of the difference, broadcast: a number."""

    def div(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """a / b, broadcast; integers are divided in the default floating type."""

    def div_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def divide(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """a / b, broadcast; integers are divided in the default floating type."""

    def divide_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def dot(self, b: Tensor) -> Tensor:
        """The inner product of two vectors [n]: a number. Raises ShapeError for other ranks or lengths."""

    def double(self) -> Tensor:
        """x as float64."""

    def dsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Views of pieces along the third dimension. Raises ShapeError for less than that, and for uneven sections."""

    def element_size(self) -> builtins.int:
        """The bytes of one element."""

    def eq(self, b: Operand) -> Tensor:
        """Whether a == b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def eq_(self, b: Operand) -> Tensor: ...
    def equal(self, other: Tensor) -> builtins.bool:
        """Whether two tensors have the same shape and values; NaN equals nothing."""

    def erf(self) -> Tensor:
        """The error function. Of each element of x, in its shape."""

    def erf_(self) -> Tensor: ...
    def erfc(self) -> Tensor:
        """1 - erf(x), exact where it is small. Of each element, in the shape of x."""

    def erfc_(self) -> Tensor: ...
    def erfinv(self) -> Tensor:
        """The inverse of the error function. Of each element, in the shape of x."""

    def erfinv_(self) -> Tensor: ...
    def exp(self) -> Tensor:
        """e to the power of x. Of each element of x, in its shape."""

    def exp2(self) -> Tensor:
        """2 to the power of x. Of each element, in the shape of x; integers become the default floating type."""

    def exp2_(self) -> Tensor: ...
    def exp_(self) -> Tensor: ...
    def expand(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """x seen in a larger shape, as a view; -1 keeps an extent. Raises ShapeError unless x broadcasts to it."""

    def expand_as(self, other: Tensor) -> Tensor:
        """x expanded to the shape of another tensor, as a view. Raises ShapeError unless it broadcasts."""

    def expm1(self) -> Tensor:
        """exp(x) - 1, exact near 0. Of each element of x, in its shape."""

    def expm1_(self) -> Tensor: ...
    def exponential_(self, lambd: builtins.float = 1, *, generator: Generator | None = None) -> Tensor:
        """Write exponential numbers of a rate. Raises ShapeError for a rate that is not positive."""

    def fill_(self, value: Operand) -> Tensor:
        """Write one value everywhere. Raises ShapeError for a tensor of more than one."""

    def fix(self) -> Tensor:
        """x without its fraction. Of each element of x, in its shape and type."""

    def fix_(self) -> Tensor: ...
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Dimensions start_dim..end_dim merged into one: a view where there is one, x itself for one dimension."""

    def flip(self, *axes: Any, dims: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """The order reversed along dimensions, given as `flip(x, 0, 1)` or `flip(x, (0, 1))`: [...] to [...]."""

    def fliplr(self) -> Tensor:
        """The columns in reverse order: [m, n, ...] in and out. Raises ShapeError for less than a matrix."""

    def flipud(self) -> Tensor:
        """The rows in reverse order: [n, ...] in and out. Raises ShapeError for a number."""

    def float(self) -> Tensor:
        """x as float32."""

    def float_power(self, exponent: Operand) -> Tensor:
        """A power computed in double precision, broadcast: float64."""

    def float_power_(self, exponent: Operand) -> Tensor: ...
    def floor(self) -> Tensor:
        """The largest integer that is not above x. Of each element of x, in its shape and type."""

    def floor_(self) -> Tensor: ...
    def floor_divide(self, b: Operand) -> Tensor:
        """The quotient rounded down, broadcast. Raises ShapeError for booleans and for integers divided by zero."""

    def floor_divide_(self, b: Operand) -> Tensor: ...
    def fmax(self, other: Operand) -> Tensor:
        """The larger of two elements, broadcast; a number wins over NaN."""

    def fmin(self, other: Operand) -> Tensor:
        """The smaller of two elements, broadcast; NaN only where both are NaN."""

    def fmod(self, b: Operand) -> Tensor:
        """The remainder with the sign of a, broadcast. Raises ShapeError for booleans and integers modulo zero."""

    def fmod_(self, b: Operand) -> Tensor: ...
    def frac(self) -> Tensor:
        """What follows the point of each element, with the sign of x. Raises ShapeError for integers."""

    def frac_(self) -> Tensor: ...
    def frexp(self) -> MantissaExponent:
        """Each element as mantissa * 2 ** exponent (int32) with 0.5 <= |mantissa| < 1."""

    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
        """out[i][j] = x[index[i][j]][j] for dim 0, in the shape of the index, which has the rank of x."""

    def gcd(self, other: Operand) -> Tensor:
        """The greatest common divisor, never negative. Operands broadcast."""

    def gcd_(self, other: Operand) -> Tensor: ...
    def ge(self, b: Operand) -> Tensor:
        """Whether a >= b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def ge_(self, b: Operand) -> Tensor: ...
    def geometric_(self, p: builtins.float, *, generator: Generator | None = None) -> Tensor:
        """Write the numbers of trials until the first success. Raises ShapeError unless 0 < p < 1."""

    def geqrf(self) -> Reflectors:
        """R with the Householder vectors below it [..., m, n], and their factors [..., min(m, n)]; no gradient."""

    def ger(self, vec2: Tensor) -> Tensor:
        """All products of an element of x [m] with one of vec2 [n]: [m, n]."""

    @property
    def grad_fn(self) -> GradientFunction | None:
        """The function that computed this tensor; None for a leaf."""

    def greater(self, b: Operand) -> Tensor:
        """Whether a > b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def greater_(self, b: Operand) -> Tensor: ...
    def greater_equal(self, b: Operand) -> Tensor:
        """Whether a >= b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def greater_equal_(self, b: Operand) -> Tensor: ...
    def gt(self, b: Operand) -> Tensor:
        """Whether a > b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def gt_(self, b: Operand) -> Tensor: ...
    def half(self) -> Tensor:
        """x as float16."""

    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """0 where |x| <= lambd, else x: [...] to [...]."""

    def heaviside(self, values: Tensor) -> Tensor:
        """0 below zero, 1 above, `values` at zero; both broadcast. Raises ShapeError for unlike types."""

    def heaviside_(self, values: Tensor) -> Tensor: ...
    def histc(
        self,
        bins: builtins.int = 100,
        min: builtins.bool | builtins.int | builtins.float = 0,
        max: builtins.bool | builtins.int | builtins.float = 0,
    ) -> Tensor:
        """How many elements fall into each of equal bins from min to max: [bins]."""

    def histogram(
        self,
        bins: builtins.int | Tensor,
        *,
        range: tuple[builtins.float, builtins.float] | None = None,
        weight: Tensor | None = None,
        density: builtins.bool = False,
    ) -> Histogram:
        """How much falls into each bin [bins], and the edges of the bins [bins + 1], which `bins` counts or names."""

    def hsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Views of pieces along the columns; of a vector along itself."""

    def hypot(self, other: Operand) -> Tensor:
        """The root of the sum of the squares, without overflow. Operands broadcast."""

    def hypot_(self, other: Operand) -> Tensor: ...
    def i0(self) -> Tensor:
        """The modified Bessel function of the first kind, order 0. Of each element, in the shape of x."""

    def i0_(self) -> Tensor: ...
    def igamma(self, other: Operand) -> Tensor:
        """The regularized lower incomplete gamma function P(input, other). Operands broadcast."""

    def igamma_(self, other: Operand) -> Tensor: ...
    def igammac(self, other: Operand) -> Tensor:
        """The regularized upper incomplete gamma function Q(input, other). Operands broadcast."""

    def igammac_(self, other: Operand) -> Tensor: ...
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Operand = 1) -> Tensor:
        """x with alpha * source added at the places of a dimension that a vector names."""

    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Operand = 1) -> Tensor: ...
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """x with `source` written to the places of a dimension that a vector names."""

    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor: ...
    def index_fill(self, dim: builtins.int, index: Tensor, value: Operand) -> Tensor:
        """x with one value at the places of a dimension that a vector names."""

    def index_fill_(self, dim: builtins.int, index: Tensor, value: Operand) -> Tensor: ...
    def index_put(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """x with `values` written to, or added to, x[indices]; None takes a whole dimension."""

    def index_put_(
        self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False
    ) -> Tensor: ...
    def index_reduce(
        self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """x with `source` combined by prod, mean, amax or amin at the places that a vector names."""

    def index_reduce_(
        self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor: ...
    def index_select(self, dim: builtins.int, index: Tensor) -> Tensor:
        """The places of a dimension that a vector names: [..., len(index), ...]."""

    def inner(self, other: Tensor) -> Tensor:
        """Inner products along the last dimensions: [..., n] and [*, n] -> [..., *]."""

    def int(self) -> Tensor:
        """x as int32."""

    def inverse(self) -> Tensor:
        """The inverse of each matrix: [..., n, n] -> [..., n, n]. Raises ShapeError if there is none."""

    def is_complex(self) -> builtins.bool:
        """False: there are no complex tensors here."""

    def is_conj(self) -> builtins.bool:
        """False: there are no complex tensors here."""

    def is_contiguous(self, *, memory_format: Any = None) -> builtins.bool:
        """Whether the elements lie in order, one next to the other."""

    @property
    def is_cpu(self) -> builtins.bool:
        """Whether x lives on the CPU."""

    @property
    def is_cuda(self) -> builtins.bool:
        """False: there is no GPU."""

    def is_floating_point(self) -> builtins.bool:
        """Whether the type is a floating-point one."""

    @property
    def is_meta(self) -> builtins.bool:
        """Whether the tensor has a shape and no values."""

    def is_neg(self) -> builtins.bool:
        """False: there are no complex tensors here."""

    def is_nonzero(self) -> builtins.bool:
        """Whether the one element is not zero. Raises ShapeError for several."""

    def is_pinned(self) -> builtins.bool:
        """False: there is no GPU to copy to."""

    @property
    def is_quantized(self) -> builtins.bool:
        """False: there are no quantized types."""

    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Whether the shapes are equal."""

    def is_set_to(self, tensor: Tensor) -> builtins.bool:
        """Whether both see the same elements of the same storage."""

    def is_signed(self) -> builtins.bool:
        """Whether the type has negative numbers."""

    @property
    def is_sparse(self) -> builtins.bool:
        """False: every tensor is strided."""

    def isclose(
        self,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> Tensor:
        """Whether elements differ by at most atol + rtol * |other|: bool, broadcast."""

    def isfinite(self) -> Tensor:
        """Whether x is neither infinite nor NaN. Of each element of x, in its shape."""

    def isinf(self) -> Tensor:
        """Whether each element is infinite: bool in the shape of x."""

    def isnan(self) -> Tensor:
        """Whether x is not a number. Of each element of x, in its shape."""

    def isneginf(self) -> Tensor:
        """Whether each element is negative infinity: bool."""

    def isposinf(self) -> Tensor:
        """Whether each element is positive infinity: bool."""

    def isreal(self) -> Tensor:
        """True for every element: there are no complex tensors here."""

    @property
    def itemsize(self) -> builtins.int:
        """The bytes of one element."""

    def kron(self, other: Tensor) -> Tensor:
        """The Kronecker product, every element of x times the whole of `other`: [m, ...] and [n, ...] -> [m n, ...]."""

    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """The k-th smallest element along a dimension, counted from 1, and its place, without it."""

    @property
    def layout(self) -> str:
        """Strided, as every tensor is."""

    def lcm(self, other: Operand) -> Tensor:
        """The least common multiple, never negative. Operands broadcast."""

    def lcm_(self, other: Operand) -> Tensor: ...
    def ldexp(self, other: Tensor) -> Tensor:
        """input * 2 ** other, broadcast. Raises ArgumentInvalid for a number."""

    def ldexp_(self, other: Tensor) -> Tensor: ...
    def le(self, b: Operand) -> Tensor:
        """Whether a <= b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def le_(self, b: Operand) -> Tensor: ...
    def lerp(self, b: Tensor, weight: Operand) -> Tensor:
        """a + weight * (b - a), counted from the nearer end so that both are exact."""

    def lerp_(self, b: Tensor, weight: Operand) -> Tensor: ...
    def less(self, b: Operand) -> Tensor:
        """Whether a < b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def less_(self, b: Operand) -> Tensor: ...
    def less_equal(self, b: Operand) -> Tensor:
        """Whether a <= b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def less_equal_(self, b: Operand) -> Tensor: ...
    def lgamma(self) -> Tensor:
        """The logarithm of the absolute value of the gamma function. Of each element, in the shape of x."""

    def lgamma_(self) -> Tensor: ...
    def log(self) -> Tensor:
        """The natural logarithm. Of each element of x, in its shape."""

    def log10(self) -> Tensor:
        """The logarithm to base 10. Of each element, in the shape of x; integers become the default floating type."""

    def log10_(self) -> Tensor: ...
    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0. Of each element of x, in its shape."""

    def log1p_(self) -> Tensor: ...
    def log2(self) -> Tensor:
        """The logarithm to base 2. Of each element of x, in its shape."""

    def log2_(self) -> Tensor: ...
    def log_(self) -> Tensor: ...
    def log_normal_(
        self, mean: builtins.float = 1, std: builtins.float = 2, *, generator: Generator | None = None
    ) -> Tensor:
        """Write numbers whose logarithms are normal. Raises TraceError in a step."""

    def log_softmax(self, dim: builtins.int, dtype: DType | None = None) -> Tensor:
        """The logarithm of softmax, computed without overflow: [...] to [...]."""

    def logaddexp(self, other: Operand) -> Tensor:
        """log(exp(x) + exp(y)) without overflow. Operands broadcast; raises ShapeError if they do not."""

    def logaddexp2(self, other: Operand) -> Tensor:
        """log2(2 ** x + 2 ** y) without overflow. Operands broadcast; raises ShapeError if they do not."""

    def logcumsumexp(self, dim: builtins.int) -> Tensor:
        """log(cumsum(exp(x))) without overflow: [...] to [...]. Raises NotImplementedError for integers."""

    def logdet(self) -> Tensor:
        """The logarithm of each determinant, NaN where it is negative: [..., n, n] -> [...]."""

    def logical_and(self, b: Operand) -> Tensor:
        """Whether both are not zero: bool in the broadcast shape."""

    def logical_and_(self, b: Operand) -> Tensor: ...
    def logical_not(self) -> Tensor:
        """Whether x is 0. Of each element of x, in its shape."""

    def logical_not_(self) -> Tensor: ...
    def logical_or(self, b: Operand) -> Tensor:
        """Whether at least one is not zero: bool in the broadcast shape."""

    def logical_or_(self, b: Operand) -> Tensor: ...
    def logical_xor(self, b: Operand) -> Tensor:
        """Whether exactly one is not zero: bool in the broadcast shape. On CSX the two are compared."""

    def logical_xor_(self, b: Operand) -> Tensor: ...
    def logit(self, eps: builtins.float | None = None) -> Tensor:
        """log(x / (1 - x)) of each element; with `eps`, x is first limited to eps..1 - eps."""

    def logit_(self, eps: builtins.float | None = None) -> Tensor: ...
    def logsumexp(self, dim: builtins.int | Sequence[builtins.int] | None, keepdim: builtins.bool = False) -> Tensor:
        """log(sum(exp(x))) over `dim` without overflow. Raises IndexError for a dimension out of range."""

    def long(self) -> Tensor:
        """x as int64."""

    def lt(self, b: Operand) -> Tensor:
        """Whether a < b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def lt_(self, b: Operand) -> Tensor: ...
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """X with A X = b for the packed factorization of A: [..., n, k], [..., n, n], int32[..., n] -> [..., n, k]."""

    @property
    def mH(self) -> Tensor:
        """The last two dimensions exchanged, as a view: [..., m, n] -> [..., n, m]."""

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged, as a view: [..., m, n] -> [..., n, m]."""

    def masked_fill(self, mask: Tensor, value: Operand) -> Tensor:
        """x with `value` where the mask holds; x and mask broadcast, the type is that of x."""

    def masked_fill_(self, mask: Tensor, value: Operand) -> Tensor: ...
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """x with the elements of `source`, in order, where the mask holds; x and mask broadcast."""

    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor: ...
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements of x where the mask holds, [n]; both broadcast."""

    def matmul(self, b: Tensor) -> Tensor:
        """The product of vectors, matrices or stacks: [..., m, k] @ [..., k, n] -> [..., m, n]."""

    def matrix_exp(self) -> Tensor:
        """The exponential of each matrix: [..., n, n] -> [..., n, n]."""

    def matrix_power(self, n: builtins.int) -> Tensor:
        """Each matrix [..., n, n] multiplied n times with itself; negative powers are those of the inverse."""

    def max(
        self, dim: Tensor | builtins.bool | builtins.int | builtins.float | None = None, keepdim: builtins.bool = False
    ) -> Any:
        """The largest element; with a dimension also its place, int64; with a second tensor the elementwise maximum."""

    def maximum(self, b: Operand) -> Tensor:
        """The larger of two elements, broadcast; NaN wins, and ties share the gradient."""

    def mean(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """The arithmetic mean over `dim`. Raises RuntimeError for integers, as PyTorch does."""

    def median(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """The lower middle of the elements; NaN if there is one. With a dimension also the place, int64."""

    def min(
        self, dim: Tensor | builtins.bool | builtins.int | builtins.float | None = None, keepdim: builtins.bool = False
    ) -> Any:
        """The smallest element; with a dimension also its place, int64."""

    def minimum(self, b: Operand) -> Tensor:
        """The smaller of two elements, broadcast; NaN wins, and ties share the gradient."""

    def mm(self, b: Tensor) -> Tensor:
        """The product of two matrices: [m, k] @ [k, n] -> [m, n]."""

    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """The most frequent element along a dimension, the smallest of several, and its last place."""

    def moveaxis(
        self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]
    ) -> Tensor:
        """Some dimensions moved to other places, the rest in order: a view."""

    def movedim(
        self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]
    ) -> Tensor:
        """Some dimensions moved to other places, the rest in order: a view."""

    def msort(self) -> Tensor:
        """The elements in order along the first dimension: [...] to [...]."""

    def mul(self, b: Operand) -> Tensor:
        """a * b, broadcast; of booleans the conjunction."""

    def mul_(self, b: Operand) -> Tensor: ...
    def multinomial(
        self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Indices drawn with the weights in each row of x: int64[..., num_samples]."""

    def multiply(self, b: Operand) -> Tensor:
        """a * b, broadcast; of booleans the conjunction."""

    def multiply_(self, b: Operand) -> Tensor: ...
    def mv(self, b: Tensor) -> Tensor:
        """A matrix times a vector: [m, k] @ [k] -> [m]. Raises IndexInvalid for a number, ShapeError as `mm` does."""

    def mvlgamma(self, p: builtins.int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p, of each element, in the shape of x."""

    def nan_to_num(
        self,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Tensor:
        """Each element, with numbers in place of NaN (0) and of the infinities (the largest numbers of the type)."""

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
        """The mean over `dim` of what is not NaN. Raises ShapeError for integers."""

    def nanmedian(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """The lower middle of the elements that are numbers. With a dimension also the place, int64."""

    def nanquantile(
        self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """Return quantiles as `quantile` does, of the elements that are not NaN."""

    def nansum(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """The sum over `dim` of what is not NaN; integers add up in int64."""

    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """A view of `length` places of a dimension from `start` on."""

    def narrow_copy(self, *args: Any, **kwargs: Any) -> Any:
        """`narrow`, copied."""

    @property
    def nbytes(self) -> builtins.int:
        """The bytes of all elements."""

    def ndimension(self) -> builtins.int:
        """The number of dimensions."""

    def ne(self, b: Operand) -> Tensor:
        """Whether a != b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def ne_(self, b: Operand) -> Tensor: ...
    def neg(self) -> Tensor:
        """The negative of each element, in the shape of x. Raises ShapeError for booleans."""

    def neg_(self) -> Tensor: ...
    def negative(self) -> Tensor:
        """The negative of each element, in the shape of x. Raises ShapeError for booleans."""

    def negative_(self) -> Tensor: ...
    def nelement(self) -> builtins.int:
        """The number of elements."""

    def new(self, *given: Any, device: Any = None, size: Any = None) -> Tensor:
        """A tensor of this one's type, of a shape or of data, as the constructors of old make it."""

    def new_empty(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """As `empty`, in the type and on the device of this tensor unless others are given."""

    def new_full(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """As `full`, in the type and on the device of this tensor unless others are given."""

    def new_ones(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """As `ones`, in the type and on the device of this tensor unless others are given."""

    def new_tensor(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """As `tensor`, in the type and on the device of this tensor unless others are given."""

    def new_zeros(self, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        """As `zeros`, in the type and on the device of this tensor unless others are given."""

    def nextafter(self, other: Tensor) -> Tensor:
        """The next number from the first operand towards the second, broadcast."""

    def nextafter_(self, other: Tensor) -> Tensor: ...
    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """The places of all elements that are not zero: int64[count, dimensions], or a vector for each dimension."""

    def norm(
        self,
        p: builtins.float | str | None = "fro",
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        dtype: DType | None = None,
    ) -> Tensor:
        """The p-norm of all elements or over `dim`, without it; "fro" is p = 2, "nuc" the sum of singular values."""

    def normal_(
        self, mean: builtins.float = 0.0, std: builtins.float = 1.0, generator: Generator | None = None
    ) -> Tensor:
        """Write normal random numbers."""

    def not_equal(self, b: Operand) -> Tensor:
        """Whether a != b: bool in the broadcast shape. Raises ShapeError for shapes that do not broadcast."""

    def not_equal_(self, b: Operand) -> Tensor: ...
    def numel(self) -> builtins.int:
        """The number of elements."""

    def ormqr(self, tau: Tensor, other: Tensor, left: builtins.bool = True, transpose: builtins.bool = False) -> Tensor:
        """Q times `other` [..., m, n] (or `other` times Q, or with Q^T) for the Q that `geqrf` describes."""

    def outer(self, b: Tensor) -> Tensor:
        """All products of an element of a [m] with one of b [n]: [m, n]."""

    def permute(self, *order: Any, dims: Sequence[builtins.int] | None = None) -> Tensor:
        """The dimensions in another order: a view."""

    def pin_memory(self) -> Tensor:
        """x itself: there is no GPU to copy to."""

    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """The inverse of Moore and Penrose: [..., m, n] -> [..., n, m]."""

    def polygamma(self, input: Tensor | builtins.int) -> Tensor:
        """Derivative number n of digamma, of each element; as a method, n is the argument."""

    def polygamma_(self, input: Tensor | builtins.int) -> Tensor: ...
    def positive(self) -> Tensor:
        """x itself. Raises ShapeError for booleans."""

    def pow(self, exponent: Operand) -> Tensor:
        """a to a power, broadcast. Raises ShapeError for integers to a negative number."""

    def pow_(self, exponent: Operand) -> Tensor: ...
    def prelu(self, weight: Tensor) -> Tensor:
        """x where it is positive, else weight * x: [N, C, ...] to [N, C, ...]."""

    def prod(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """The product over `dim`; integers and bool multiply in int64."""

    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """A copy of x with `source` written to, or added at, places of the flat order. Raises IndexError outside."""

    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor: ...
    def qr(self, some: builtins.bool | str = True, *, mode: str = "reduced") -> QR:
        """Q [..., m, k] with orthonormal columns and the triangle R [..., k, n], A = Q R."""

    def quantile(
        self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """The q-quantiles of all elements or along a dimension, without it; several q [k] come first: [k, ...]."""

    def rad2deg(self) -> Tensor:
        """Radians as degrees, of each element; integers become the default floating type."""

    def rad2deg_(self) -> Tensor: ...
    def random_(self, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
        """Write random integers: below `to`, in `from`..`to` - 1, or all that the type holds without a gap."""

    def ravel(self) -> Tensor:
        """All elements in one dimension, [n]: a view where the elements lie in order."""

    def reciprocal(self) -> Tensor:
        """1 / x. Of each element of x, in its shape."""

    def reciprocal_(self) -> Tensor: ...
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(gradient)` in backward when the gradient of this tensor is complete."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(t)` after backward has added to `t.grad`. Return a handle that removes the hook."""

    def relu(self) -> Tensor:
        """x where it is positive, else 0. Of each element of x, in its shape."""

    def relu_(self) -> Tensor: ...
    def remainder(self, b: Operand) -> Tensor:
        """What floor division leaves, with the sign of b, broadcast. Raises ShapeError for bool and for modulo zero."""

    def remainder_(self, b: Operand) -> Tensor: ...
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """x with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it: [...] to [...]."""

    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor: ...
    def repeat(self, *sizes: Any) -> Tensor:
        """x repeated along each dimension; new dimensions are put in front."""

    def repeat_interleave(
        self,
        repeats: builtins.int | Tensor | None = None,
        dim: builtins.int | None = None,
        *,
        output_size: builtins.int | None = None,
    ) -> Tensor:
        """Each place of a dimension several times in a row; a vector alone gives place k repeats[k] times."""

    def reshape(self, *size: Any, shape: Sequence[builtins.int] | None = None) -> Tensor:
        """x in another shape: a view, or a copy if the elements do not lie so that there is one."""

    def reshape_as(self, other: Tensor) -> Tensor:
        """x in the shape of another tensor. Raises ShapeError for another number of elements."""

    def resolve_conj(self) -> Tensor:
        """x itself: it is real."""

    def resolve_neg(self) -> Tensor:
        """x itself: it is real."""

    def retain_grad(self) -> None:
        """Make backward also set `.grad` of this tensor, which is not a leaf. It does nothing for a leaf."""

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether `retain_grad` was called on this tensor and it is not a leaf."""

    def roll(
        self, shifts: builtins.int | Sequence[builtins.int], dims: builtins.int | Sequence[builtins.int] | None = None
    ) -> Tensor:
        """Elements moved on along dimensions, those that fall off coming in at the start; else in the flat order."""

    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = ...) -> Tensor:
        """The plane of two dimensions turned by k quarters, from the first towards the second."""

    def round(self, *, decimals: builtins.int | None = None) -> Tensor:
        """Each element rounded to so many decimals, ties to even; negative ones round to tens, hundreds, ..."""

    def round_(self, *, decimals: builtins.int | None = None) -> Tensor: ...
    def rsqrt(self) -> Tensor:
        """One over the square root. Of each element of x, in its shape."""

    def rsqrt_(self) -> Tensor: ...
    def rsub(self, b: Operand, *, alpha: Operand = 1) -> Tensor:
        """b - alpha * a, broadcast. Raises ShapeError for booleans."""

    def scatter(
        self,
        dim: builtins.int,
        index: Tensor,
        src: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        value: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        reduce: str = "",
    ) -> Tensor:
        """x with src written to the places along `dim`; `reduce` "add" or "multiply" combines instead."""

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
        """x with src added at the places along `dim`: the shape of x. Raises ShapeError as `scatter` does."""

    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor: ...
    def scatter_reduce(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """x with src combined at the places along `dim` by sum, prod, mean, amax or amin: the shape of x."""

    def scatter_reduce_(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor: ...
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """A view of one place of a dimension, which disappears. Raises IndexError outside the extent."""

    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """A copy of x with one place of a dimension replaced by src, which lacks that dimension."""

    def sgn(self) -> Tensor:
        """`sign`, of which the vendor's front end refuses the gradient under this name."""

    def sgn_(self) -> Tensor: ...
    def short(self) -> Tensor:
        """x as int16."""

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)). Of each element of x, in its shape."""

    def sigmoid_(self) -> Tensor: ...
    def sign(self) -> Tensor:
        """-1, 0 or 1 for each element, in the shape of x; a boolean is its own sign."""

    def sign_(self) -> Tensor: ...
    def signbit(self) -> Tensor:
        """Whether the sign of each element is negative, also that of zero: bool."""

    def sin(self) -> Tensor:
        """The sine. Of each element of x, in its shape."""

    def sin_(self) -> Tensor: ...
    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), and 1 at 0, of each element."""

    def sinc_(self) -> Tensor: ...
    def sinh(self) -> Tensor:
        """The hyperbolic sine. Of each element, in the shape of x; integers become the default floating type."""

    def sinh_(self) -> Tensor: ...
    def size(self, dim: builtins.int | None = None) -> Any:
        """The shape, or one extent."""

    def slice_scatter(
        self,
        src: Tensor,
        dim: builtins.int = 0,
        start: builtins.int | None = None,
        end: builtins.int | None = None,
        step: builtins.int = 1,
    ) -> Tensor:
        """A copy of x with the places start, start + step, ... of a dimension replaced by src."""

    def slogdet(self) -> SignLog:
        """The sign and the logarithm of the size of each determinant: [..., n, n] -> two of [...]."""

    def softmax(self, dim: builtins.int, dtype: DType | None = None) -> Tensor:
        """exp(x) divided by its sum along a dimension: [...] to [...]."""

    def sort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool | None = None
    ) -> ValuesIndices:
        """The elements in order along a dimension, and where they were, int64: two of [...]."""

    def split(
        self,
        split_size_or_sections: builtins.int | Sequence[builtins.int] | Tensor | None = None,
        dim: builtins.int = 0,
        *,
        split_size: builtins.int | Sequence[builtins.int] | Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Views of consecutive pieces of a dimension, all of one size but the last, or of the sizes given."""

    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Views of consecutive pieces of the given sizes. Raises ShapeError unless they add up to the extent."""

    def sqrt(self) -> Tensor:
        """The square root. Of each element of x, in its shape."""

    def sqrt_(self) -> Tensor: ...
    def square(self) -> Tensor:
        """x * x, in the shape of x."""

    def square_(self) -> Tensor: ...
    def squeeze(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Without its dimensions of extent 1, or without those given if they have extent 1: a view."""

    def std(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """The standard deviation over `dim`, the root of `var`. Raises ShapeError for integers."""

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
        """The spectra of windows `hop_length` apart: [(batch,) n] -> [(batch,) frequency, window, (real."""

    def storage_offset(self) -> builtins.int:
        """Where the first element lies in the storage."""

    def stride(self, dim: builtins.int | None = None) -> Any:
        """How many elements lie between neighbours of each dimension, or of one."""

    def sub(
        self,
        b: Operand,
        scaled: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        *,
        alpha: Operand = 1,
    ) -> Tensor:
        """a - alpha * b, broadcast; of old `sub(a, alpha, b)`. Raises ShapeError for booleans, and as `add` does."""

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
        """a - alpha * b, broadcast; of old `sub(a, alpha, b)`. Raises ShapeError for booleans, and as `add` does."""

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
        """The sum over `dim`; integers and bool add up in int64. Raises IndexError for a dimension out of range."""

    def sum_to_size(self, *size: Any) -> Tensor:
        """The sum over what broadcasting would repeat, in the shape `size`."""

    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """Two dimensions exchanged: a view. Raises IndexError for a dimension that x does not have."""

    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dimensions exchanged: a view. Raises IndexError for a dimension that x does not have."""

    def t(self) -> Tensor:
        """A matrix transposed, a view; what has fewer dimensions stays. Raises ShapeError for more."""

    def take(self, index: Tensor) -> Tensor:
        """Elements of x by their place in the flat order, in the shape of the index. Raises IndexError outside."""

    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """`gather` whose operands broadcast in the other dimensions; without a dimension, of the flat order."""

    def tan(self) -> Tensor:
        """The tangent. Of each element of x, in its shape."""

    def tan_(self) -> Tensor: ...
    def tanh(self) -> Tensor:
        """The hyperbolic tangent. Of each element of x, in its shape."""

    def tanh_(self) -> Tensor: ...
    def tensor_split(
        self,
        indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor | None = None,
        dim: builtins.int = 0,
        *,
        indices: Sequence[builtins.int] | None = None,
        sections: builtins.int | None = None,
    ) -> tuple[Tensor, ...]:
        """Views of pieces of nearly equal size, or of what lies between the given places of a dimension."""

    def tile(self, *dims: Any) -> Tensor:
        """x repeated along each dimension; missing repetitions are 1, missing dimensions are put in front."""

    def to(
        self, *args: Any, dtype: DType | None = None, device: Any = None, copy: builtins.bool = False, **_: Any
    ) -> Tensor:
        """x with another dtype, on another device, or both; x itself if nothing changes."""

    def topk(
        self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True
    ) -> ValuesIndices:
        """The k largest or smallest elements along a dimension, in order, and where they are: two of [..., k, ...]."""

    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix [m, n]: a number. Raises ShapeError for other ranks."""

    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dimensions exchanged: a view. Raises IndexError for one out of range."""

    def triangular_solve(
        self,
        A: Tensor,
        upper: builtins.bool = True,
        transpose: builtins.bool = False,
        unitriangular: builtins.bool = False,
    ) -> Solution:
        """X with A X = B, or A^T X = B if `transpose`, and a copy of A: [..., n, k] and [..., n, n]."""

    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """What lies on and below a diagonal of each matrix, zeros elsewhere: [..., m, n]."""

    def tril_(self, diagonal: builtins.int = 0) -> Tensor: ...
    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """What lies on and above a diagonal of each matrix, zeros elsewhere: [..., m, n]."""

    def triu_(self, diagonal: builtins.int = 0) -> Tensor: ...
    def true_divide(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """a / b, broadcast; integers are divided in the default floating type."""

    def true_divide_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def trunc(self) -> Tensor:
        """x without its fraction. Of each element of x, in its shape and type."""

    def trunc_(self) -> Tensor: ...
    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """The name of the type, as "torch.FloatTensor"; with a dtype or such a name, x converted to it."""

    def type_as(self, other: Tensor) -> Tensor:
        """x with the dtype of another tensor."""

    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """A view of every place of a dimension, which disappears from the shapes."""

    def unflatten(self, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
        """One dimension split into several, a view; one of the new extents may be -1."""

    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """A view of all windows of `size` places along a dimension, `step` apart."""

    def uniform_(self, a: builtins.float = 0.0, b: builtins.float = 1.0, generator: Generator | None = None) -> Tensor:
        """Write uniform random numbers from a to b."""

    def unique(
        self,
        sorted: builtins.bool = True,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """The distinct elements [n], or slices of a dimension, in order; on request where each went."""

    def unique_consecutive(
        self,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """Elements [n], or slices of a dimension, without those equal to the one before."""

    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """As `chunk`: at most so many views of equal size."""

    def unsafe_split(
        self, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = 0
    ) -> tuple[Tensor, ...]:
        """As `split`: views of consecutive pieces."""

    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """A new dimension of extent 1 at `dim`: a view. Raises IndexError for a place out of range."""

    def var(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """The variance over `dim`, without it: squares about the mean."""

    def vdot(self, other: Tensor) -> Tensor:
        """The inner product of two vectors [n]: a number. Raises ShapeError for other ranks or lengths."""

    def view(self, *args: Any, size: Sequence[builtins.int] | None = None, dtype: DType | None = None) -> Tensor:
        """`view`. Raises ShapeError where strides cannot describe the elements of x in the new shape."""

    def view_as(self, other: Tensor) -> Tensor:
        """x in the shape of another tensor, as a view. Raises ShapeError for another number of elements."""

    def vsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Views of pieces along the rows. Raises ShapeError for less than a matrix."""

    def where(self, condition: Tensor, other: Operand) -> Tensor:
        """x where the condition holds, else `other`; all three broadcast."""

    def xlogy(self, other: Operand) -> Tensor:
        """x * log(y), broadcast, and 0 where x is 0. PyTorch rounds the logarithm of half types on the host."""

    def xlogy_(self, other: Operand) -> Tensor: ...
    def xpu(self, device: Any = None, non_blocking: builtins.bool = False) -> Tensor:
        """Raises DeviceAbsent: there is no GPU."""

    def zero_(self) -> Tensor:
        """Write zeros everywhere."""
