"""What Tensor has besides its own file; `python -m tests.method_stub` writes it from the marked functions."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.dtype import DType
from lazytensor.functions.linalg import QR, Reflectors, SignLog, Solution
from lazytensor.functions.promotion import Operand
from lazytensor.functions.reductions import ValuesIndices
from lazytensor.functions.sorting import Extremes, Histogram
from lazytensor.functions.special import MantissaExponent
from lazytensor.gradients import GradientFunction, Handle
from lazytensor.random import Generator
from lazytensor.tensor import Tensor

class Methods:
    """Methods, forms that write in place, operators and properties of Tensor."""

    @property
    def H(self) -> Tensor:
        """A matrix transposed; numbers are real here."""

    @property
    def T(self) -> Tensor:
        """The dimensions in the opposite order."""

    def __abs__(self) -> Tensor:
        """The absolute value."""

    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __dlpack__(self, **options: Any) -> Any:
        """A capsule with a copy of the values: tensors here are lazy, so memory is not shared."""

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
        """Each bit inverted; for bool the negation. Raises ShapeError for floating-point numbers."""

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
        """The negative. Raises ShapeError for booleans."""

    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """x, also where it is a boolean."""

    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __repr__(self) -> str:
        """The printed form of a tensor. Reading it inside a traced step of the wafer raises TraceError."""

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
    def abs(self) -> Tensor:
        """The absolute value."""

    def abs_(self) -> Tensor: ...
    def absolute(self) -> Tensor:
        """The absolute value."""

    def absolute_(self) -> Tensor: ...
    def acos(self) -> Tensor:
        """The angle whose cosine is x."""

    def acos_(self) -> Tensor: ...
    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosine."""

    def acosh_(self) -> Tensor: ...
    def add(self, b: Operand, *, alpha: Operand = 1) -> Tensor:
        """a + alpha * b"""

    def add_(self, b: Operand, *, alpha: Operand = 1) -> Tensor: ...
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x + alpha * (the sum of the products of two stacks of matrices)."""

    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addcdiv(self, a: Tensor, b: Tensor, *, value: Operand = 1) -> Tensor:
        """x + value * a / b"""

    def addcdiv_(self, a: Tensor, b: Tensor, *, value: Operand = 1) -> Tensor: ...
    def addcmul(self, a: Tensor, b: Tensor, *, value: Operand = 1) -> Tensor:
        """x + value * a * b"""

    def addcmul_(self, a: Tensor, b: Tensor, *, value: Operand = 1) -> Tensor: ...
    def addmm(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x + alpha * (a @ b)"""

    def addmm_(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x + alpha * (mat @ vec)"""

    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x + alpha * (the outer product of two vectors)"""

    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def all(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether every element is not zero; uint8 answers in its own type."""

    def allclose(
        self,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> builtins.bool:
        """Whether `isclose` holds everywhere."""

    def amax(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The largest element; equal ones share the gradient."""

    def amin(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The smallest element; equal ones share the gradient."""

    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Extremes:
        """The smallest and the largest element; equal ones share the gradient."""

    def angle(self) -> Tensor:
        """0 for numbers that are not negative, pi for the others; NaN stays."""

    def any(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether some element is not zero; uint8 answers in its own type."""

    def arccos(self) -> Tensor:
        """The angle whose cosine is x."""

    def arccos_(self) -> Tensor: ...
    def arccosh(self) -> Tensor:
        """The inverse hyperbolic cosine."""

    def arccosh_(self) -> Tensor: ...
    def arcsin(self) -> Tensor:
        """The angle whose sine is x."""

    def arcsin_(self) -> Tensor: ...
    def arcsinh(self) -> Tensor:
        """The inverse hyperbolic sine."""

    def arcsinh_(self) -> Tensor: ...
    def arctan(self) -> Tensor:
        """The angle whose tangent is x."""

    def arctan2(self, b: Tensor) -> Tensor:
        """The angle of the point (b, a)."""

    def arctan2_(self, b: Tensor) -> Tensor: ...
    def arctan_(self) -> Tensor: ...
    def arctanh(self) -> Tensor:
        """The inverse hyperbolic tangent."""

    def arctanh_(self) -> Tensor: ...
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The place of the largest element, the first of equal ones."""

    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The place of the smallest element, the first of equal ones."""

    def argsort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool | None = None
    ) -> Tensor:
        """Where the elements in order along a dimension are."""

    def argwhere(self) -> Tensor:
        """`nonzero` as [count, dimensions]."""

    def as_strided(
        self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None
    ) -> Tensor:
        """A view of the storage of x with any strides. Raises ShapeError if it would leave the storage."""

    def as_strided_scatter(
        self,
        src: Tensor,
        size: Sequence[builtins.int],
        stride: Sequence[builtins.int],
        storage_offset: builtins.int | None = None,
    ) -> Tensor:
        """A copy of x with the elements of a strided view replaced."""

    def asin(self) -> Tensor:
        """The angle whose sine is x."""

    def asin_(self) -> Tensor: ...
    def asinh(self) -> Tensor:
        """The inverse hyperbolic sine."""

    def asinh_(self) -> Tensor: ...
    def atan(self) -> Tensor:
        """The angle whose tangent is x."""

    def atan2(self, b: Tensor) -> Tensor:
        """The angle of the point (b, a)."""

    def atan2_(self, b: Tensor) -> Tensor: ...
    def atan_(self) -> Tensor: ...
    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangent."""

    def atanh_(self) -> Tensor: ...
    def baddbmm(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
        """beta * x + alpha * (a @ b) for stacks of matrices."""

    def baddbmm_(self, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor: ...
    def bernoulli(self, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
        """Ones with the probabilities that x holds (or with p), zeros elsewhere."""

    def bernoulli_(self, p: builtins.float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Write ones with probability p, zeros elsewhere."""

    def bfloat16(self) -> Tensor:
        """x as bfloat16."""

    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """How often each number from 0 on occurs in a vector, or the sum of the weights of its occurrences."""

    def bitwise_and(self, other: Operand) -> Tensor:
        """Each bit that both have. Raises ShapeError for floating-point numbers."""

    def bitwise_and_(self, other: Operand) -> Tensor: ...
    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """The bits moved towards the sign; 0 moves in. Raises ShapeError for floating-point numbers."""

    def bitwise_left_shift_(self, other: Operand) -> Tensor: ...
    def bitwise_not(self) -> Tensor:
        """Each bit inverted; for bool the negation. Raises ShapeError for floating-point numbers."""

    def bitwise_not_(self) -> Tensor: ...
    def bitwise_or(self, other: Operand) -> Tensor:
        """Each bit that one of them has. Raises ShapeError for floating-point numbers."""

    def bitwise_or_(self, other: Operand) -> Tensor: ...
    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """The bits moved from the sign, which moves in. Raises ShapeError for floating-point numbers."""

    def bitwise_right_shift_(self, other: Operand) -> Tensor: ...
    def bitwise_xor(self, other: Operand) -> Tensor:
        """Each bit that exactly one has. Raises ShapeError for floating-point numbers."""

    def bitwise_xor_(self, other: Operand) -> Tensor: ...
    def bmm(self, b: Tensor) -> Tensor:
        """The products of two stacks of matrices of equal length."""

    def bool(self) -> Tensor:
        """x as bool."""

    def broadcast_to(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """x expanded to a shape."""

    def byte(self) -> Tensor:
        """x as uint8."""

    def cauchy_(
        self, median: builtins.float = 0, sigma: builtins.float = 1, *, generator: Generator | None = None
    ) -> Tensor:
        """Write numbers of the Cauchy distribution."""

    def ceil(self) -> Tensor:
        """The smallest integer that is not below x."""

    def ceil_(self) -> Tensor: ...
    def char(self) -> Tensor:
        """x as int8."""

    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        """L with x = L L^T, or its transpose if `upper`. Raises ShapeError if x is not positive definite."""

    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        """The inverse of L L^T, or of L^T L if `upper`."""

    def cholesky_solve(self, L: Tensor, upper: builtins.bool = False) -> Tensor:
        """X with L L^T X = b, or L^T L X = b if `upper`."""

    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal size."""

    def clamp(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor:
        """x limited to min..max; either bound may be missing."""

    def clamp_(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor: ...
    def clamp_max(self, max: Operand) -> Tensor:
        """x, or `max` where x is above it."""

    def clamp_max_(self, max: Operand) -> Tensor: ...
    def clamp_min(self, min: Operand) -> Tensor:
        """x, or `min` where x is below it."""

    def clamp_min_(self, min: Operand) -> Tensor: ...
    def clip(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor:
        """x limited to min..max; either bound may be missing."""

    def clip_(
        self,
        min: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
        max: Tensor | builtins.bool | builtins.int | builtins.float | None = None,
    ) -> Tensor: ...
    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A tensor of its own with the same values."""

    def conj(self) -> Tensor:
        """x itself: it is real."""

    def conj_physical(self) -> Tensor:
        """x itself: it is real."""

    def contiguous(self, *, memory_format: Any = None) -> Tensor:
        """x itself, or a copy if its elements do not lie in order."""

    def copy_(self, value: Operand, non_blocking: builtins.bool = False) -> Tensor:
        """Write the values of another tensor, converted and broadcast."""

    def copysign(self, other: Operand) -> Tensor:
        """The size of the first operand with the sign of the second."""

    def copysign_(self, other: Operand) -> Tensor: ...
    def corrcoef(self) -> Tensor:
        """The correlations of the rows."""

    def cos(self) -> Tensor:
        """The cosine."""

    def cos_(self) -> Tensor: ...
    def cosh(self) -> Tensor:
        """The hyperbolic cosine."""

    def cosh_(self) -> Tensor: ...
    def count_nonzero(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """How many elements are not zero."""

    def cov(
        self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
    ) -> Tensor:
        """The covariances of the rows, whose columns are observations, counted or weighted."""

    def cpu(self) -> Tensor:
        """x on the CPU."""

    def cross(self, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """The cross product along a dimension of extent 3; without `dim` along the first one of that extent."""

    def cummax(self, dim: builtins.int) -> ValuesIndices:
        """The largest element so far along a dimension, and its last place."""

    def cummin(self, dim: builtins.int) -> ValuesIndices:
        """The smallest element so far along a dimension, and its last place."""

    def cumprod(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """The product of all elements so far along a dimension; integers and bool multiply in int64."""

    def cumprod_(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor: ...
    def cumsum(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """The sum of all elements so far along a dimension; integers and bool add up in int64."""

    def cumsum_(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor: ...
    def data_ptr(self) -> builtins.int:
        """A number that two tensors share exactly if they start at the same element of the same storage."""

    def deg2rad(self) -> Tensor:
        """Degrees as radians."""

    def deg2rad_(self) -> Tensor: ...
    def det(self) -> Tensor:
        """The determinant of each matrix."""

    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """The matrix with the vector x on a diagonal, or a copy of a diagonal of the matrix x."""

    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Zeros with the last dimension of x on a diagonal of two new dimensions."""

    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """The matrix with all elements of x on a diagonal."""

    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """A view of a diagonal over two dimensions, which becomes the last dimension."""

    def diagonal_scatter(
        self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
    ) -> Tensor:
        """A copy of x with a diagonal replaced."""

    def diff(
        self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None
    ) -> Tensor:
        """Differences of neighbours along a dimension, n times; of bool, whether they differ."""

    def digamma(self) -> Tensor:
        """The derivative of lgamma."""

    def digamma_(self) -> Tensor: ...
    def dim(self) -> builtins.int:
        """The number of dimensions."""

    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:
        """The p-norm of the difference."""

    def div(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """a / b; with rounding_mode "floor" or "trunc" the quotient is rounded and keeps an integer type."""

    def div_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def divide(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """a / b; with rounding_mode "floor" or "trunc" the quotient is rounded and keeps an integer type."""

    def divide_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def dot(self, b: Tensor) -> Tensor:
        """The inner product of two vectors."""

    def double(self) -> Tensor:
        """x as float64."""

    def dsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Pieces along the third dimension."""

    def element_size(self) -> builtins.int:
        """The bytes of one element."""

    def eq(self, b: Operand) -> Tensor:
        """a == b"""

    def eq_(self, b: Operand) -> Tensor: ...
    def equal(self, other: Tensor) -> builtins.bool:
        """Whether two tensors have the same shape and values."""

    def erf(self) -> Tensor:
        """The error function."""

    def erf_(self) -> Tensor: ...
    def erfc(self) -> Tensor:
        """1 - erf(x), exact where it is small."""

    def erfc_(self) -> Tensor: ...
    def erfinv(self) -> Tensor:
        """The inverse of the error function."""

    def erfinv_(self) -> Tensor: ...
    def exp(self) -> Tensor:
        """e to the power of x."""

    def exp2(self) -> Tensor:
        """2 to the power of x."""

    def exp2_(self) -> Tensor: ...
    def exp_(self) -> Tensor: ...
    def expand(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """x seen in a larger shape; -1 keeps an extent."""

    def expand_as(self, other: Tensor) -> Tensor:
        """x expanded to the shape of another tensor."""

    def expm1(self) -> Tensor:
        """exp(x) - 1, exact near 0."""

    def expm1_(self) -> Tensor: ...
    def exponential_(self, lambd: builtins.float = 1, *, generator: Generator | None = None) -> Tensor:
        """Write exponential numbers of a rate. Raises ShapeError for a rate that is not positive."""

    def fill_(self, value: Operand) -> Tensor:
        """Write one value everywhere."""

    def fix(self) -> Tensor:
        """x without its fraction."""

    def fix_(self) -> Tensor: ...
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Dimensions start_dim..end_dim merged into one."""

    def flip(self, *axes: Any, dims: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """The order reversed along dimensions, given as `flip(x, 0, 1)` or `flip(x, (0, 1))`."""

    def fliplr(self) -> Tensor:
        """The columns in reverse order."""

    def flipud(self) -> Tensor:
        """The rows in reverse order."""

    def float(self) -> Tensor:
        """x as float32."""

    def float_power(self, exponent: Operand) -> Tensor:
        """A power computed in double precision."""

    def float_power_(self, exponent: Operand) -> Tensor: ...
    def floor(self) -> Tensor:
        """The largest integer that is not above x."""

    def floor_(self) -> Tensor: ...
    def floor_divide(self, b: Operand) -> Tensor:
        """The quotient, rounded down."""

    def floor_divide_(self, b: Operand) -> Tensor: ...
    def fmax(self, other: Operand) -> Tensor:
        """The larger of two elements; a number wins over NaN."""

    def fmin(self, other: Operand) -> Tensor:
        """The smaller of two elements; a number wins over NaN."""

    def fmod(self, b: Operand) -> Tensor:
        """The remainder with the sign of a."""

    def fmod_(self, b: Operand) -> Tensor: ...
    def frac(self) -> Tensor:
        """What follows the point, with the sign of x. Raises ShapeError for integers."""

    def frac_(self) -> Tensor: ...
    def frexp(self) -> MantissaExponent:
        """x as mantissa * 2 ** exponent with 0.5 <= |mantissa| < 1. Raises ShapeError for integers."""

    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
        """out[i][j] = x[index[i][j]][j] for dim 0. Raises ShapeError (a RuntimeError) for places outside x."""

    def gcd(self, other: Operand) -> Tensor:
        """The greatest common divisor, never negative. Raises ShapeError for floating-point numbers."""

    def gcd_(self, other: Operand) -> Tensor: ...
    def ge(self, b: Operand) -> Tensor:
        """a >= b"""

    def ge_(self, b: Operand) -> Tensor: ...
    def geometric_(self, p: builtins.float, *, generator: Generator | None = None) -> Tensor:
        """Write the numbers of trials until the first success. Raises ShapeError unless 0 < p < 1."""

    def geqrf(self) -> Reflectors:
        """R with the Householder vectors below it, and their factors; no gradient."""

    def ger(self, vec2: Tensor) -> Tensor:
        """All products of an element of x with one of vec2."""

    @property
    def grad_fn(self) -> GradientFunction | None:
        """The function that computed t; None for a leaf."""

    def greater(self, b: Operand) -> Tensor:
        """a > b"""

    def greater_(self, b: Operand) -> Tensor: ...
    def greater_equal(self, b: Operand) -> Tensor:
        """a >= b"""

    def greater_equal_(self, b: Operand) -> Tensor: ...
    def gt(self, b: Operand) -> Tensor:
        """a > b"""

    def gt_(self, b: Operand) -> Tensor: ...
    def half(self) -> Tensor:
        """x as float16."""

    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """0 where |x| <= lambd, else x."""

    def heaviside(self, values: Tensor) -> Tensor:
        """0 below zero, 1 above, `values` at zero. Raises ShapeError for unlike types."""

    def heaviside_(self, values: Tensor) -> Tensor: ...
    def histc(
        self,
        bins: builtins.int = 100,
        min: builtins.bool | builtins.int | builtins.float = 0,
        max: builtins.bool | builtins.int | builtins.float = 0,
    ) -> Tensor:
        """How many elements fall into each of equal bins from min to max; equal limits mean those of the data."""

    def histogram(
        self,
        bins: builtins.int | Tensor,
        *,
        range: tuple[builtins.float, builtins.float] | None = None,
        weight: Tensor | None = None,
        density: builtins.bool = False,
    ) -> Histogram:
        """How much falls into each bin, and the edges of the bins, which `bins` counts or names."""

    def hsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Pieces along the columns; of a vector along itself."""

    def hypot(self, other: Operand) -> Tensor:
        """The root of the sum of the squares, without overflow."""

    def hypot_(self, other: Operand) -> Tensor: ...
    def i0(self) -> Tensor:
        """The modified Bessel function of the first kind, order 0."""

    def i0_(self) -> Tensor: ...
    def igamma(self, other: Operand) -> Tensor:
        """The regularized lower incomplete gamma function P(input, other)."""

    def igamma_(self, other: Operand) -> Tensor: ...
    def igammac(self, other: Operand) -> Tensor:
        """The regularized upper incomplete gamma function Q(input, other)."""

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
        """The places of a dimension that a vector names. Raises IndexError outside the extent."""

    def inner(self, other: Tensor) -> Tensor:
        """Inner products along the last dimensions; the other dimensions stand one after the other."""

    def int(self) -> Tensor:
        """x as int32."""

    def inverse(self) -> Tensor:
        """The inverse of each matrix. Raises ShapeError if there is none."""

    def is_complex(self) -> builtins.bool:
        """False: there are no complex tensors here."""

    def is_conj(self) -> builtins.bool:
        """False: there are no complex tensors here."""

    def is_contiguous(self, *, memory_format: Any = None) -> builtins.bool:
        """Whether the elements lie in order, one next to the other."""

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
        """Whether elements differ by at most atol + rtol * |other|. Raises ShapeError for unlike types."""

    def isfinite(self) -> Tensor:
        """Whether x is neither infinite nor NaN."""

    def isinf(self) -> Tensor:
        """Whether x is infinite."""

    def isnan(self) -> Tensor:
        """Whether x is not a number."""

    def isneginf(self) -> Tensor:
        """Whether x is negative infinity."""

    def isposinf(self) -> Tensor:
        """Whether x is positive infinity."""

    def isreal(self) -> Tensor:
        """True everywhere: there are no complex tensors here."""

    @property
    def itemsize(self) -> builtins.int:
        """The bytes of one element."""

    def kron(self, other: Tensor) -> Tensor:
        """The Kronecker product: every element of x times the whole of `other`."""

    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """The k-th smallest element along a dimension, counted from 1, and its place."""

    @property
    def layout(self) -> str:
        """Strided, as every tensor is."""

    def lcm(self, other: Operand) -> Tensor:
        """The least common multiple, never negative. Raises ShapeError for floating-point numbers."""

    def lcm_(self, other: Operand) -> Tensor: ...
    def ldexp(self, other: Tensor) -> Tensor:
        """input * 2 ** other"""

    def ldexp_(self, other: Tensor) -> Tensor: ...
    def le(self, b: Operand) -> Tensor:
        """a <= b"""

    def le_(self, b: Operand) -> Tensor: ...
    def lerp(self, b: Tensor, weight: Operand) -> Tensor:
        """a + weight * (b - a), counted from the nearer end so that both are exact."""

    def lerp_(self, b: Tensor, weight: Operand) -> Tensor: ...
    def less(self, b: Operand) -> Tensor:
        """a < b"""

    def less_(self, b: Operand) -> Tensor: ...
    def less_equal(self, b: Operand) -> Tensor:
        """a <= b"""

    def less_equal_(self, b: Operand) -> Tensor: ...
    def lgamma(self) -> Tensor:
        """The logarithm of the absolute value of the gamma function."""

    def lgamma_(self) -> Tensor: ...
    def log(self) -> Tensor:
        """The natural logarithm."""

    def log10(self) -> Tensor:
        """The logarithm to base 10."""

    def log10_(self) -> Tensor: ...
    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0."""

    def log1p_(self) -> Tensor: ...
    def log2(self) -> Tensor:
        """The logarithm to base 2."""

    def log2_(self) -> Tensor: ...
    def log_(self) -> Tensor: ...
    def log_normal_(
        self, mean: builtins.float = 1, std: builtins.float = 2, *, generator: Generator | None = None
    ) -> Tensor:
        """Write numbers whose logarithms are normal."""

    def log_softmax(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """The logarithm of softmax, computed without overflow."""

    def logaddexp(self, other: Operand) -> Tensor:
        """log(exp(x) + exp(y)) without overflow."""

    def logaddexp2(self, other: Operand) -> Tensor:
        """log2(2 ** x + 2 ** y) without overflow."""

    def logcumsumexp(self, dim: builtins.int) -> Tensor:
        """log(cumsum(exp(x))) without overflow. Raises NotImplementedError for integers."""

    def logdet(self) -> Tensor:
        """The logarithm of each determinant; NaN where it is negative."""

    def logical_and(self, b: Operand) -> Tensor:
        """Both are not zero."""

    def logical_and_(self, b: Operand) -> Tensor: ...
    def logical_not(self) -> Tensor:
        """Whether x is 0."""

    def logical_not_(self) -> Tensor: ...
    def logical_or(self, b: Operand) -> Tensor:
        """At least one is not zero."""

    def logical_or_(self, b: Operand) -> Tensor: ...
    def logical_xor(self, b: Operand) -> Tensor:
        """Exactly one is not zero."""

    def logical_xor_(self, b: Operand) -> Tensor: ...
    def logit(self, eps: builtins.float | None = None) -> Tensor:
        """log(x / (1 - x)); with `eps`, x is first limited to eps..1 - eps."""

    def logit_(self, eps: builtins.float | None = None) -> Tensor: ...
    def logsumexp(self, dim: builtins.int | Sequence[builtins.int] | None, keepdim: builtins.bool = False) -> Tensor:
        """log(sum(exp(x))) without overflow."""

    def long(self) -> Tensor:
        """x as int64."""

    def lt(self, b: Operand) -> Tensor:
        """a < b"""

    def lt_(self, b: Operand) -> Tensor: ...
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """X with A X = b for the packed factorization of A."""

    @property
    def mH(self) -> Tensor:
        """The last two dimensions exchanged."""

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""

    def masked_fill(self, mask: Tensor, value: Operand) -> Tensor:
        """x with `value` where the mask holds."""

    def masked_fill_(self, mask: Tensor, value: Operand) -> Tensor: ...
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """x with the elements of `source`, in order, where the mask holds."""

    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor: ...
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements of x where the mask holds, as a vector."""

    def matmul(self, b: Tensor) -> Tensor:
        """The product of vectors, matrices or stacks of matrices, whose leading extents broadcast."""

    def matrix_exp(self) -> Tensor:
        """The exponential of each matrix."""

    def matrix_power(self, n: builtins.int) -> Tensor:
        """Each matrix multiplied n times with itself; negative powers are those of the inverse."""

    def max(
        self, dim: Tensor | builtins.bool | builtins.int | builtins.float | None = None, keepdim: builtins.bool = False
    ) -> Any:
        """The largest element; with a dimension also its place; with a second tensor the elementwise maximum."""

    def maximum(self, b: Operand) -> Tensor:
        """The larger of two elements; NaN wins."""

    def mean(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """The arithmetic mean of floating-point numbers."""

    def median(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """The lower middle of the elements; NaN if there is one. With a dimension also the place."""

    def min(
        self, dim: Tensor | builtins.bool | builtins.int | builtins.float | None = None, keepdim: builtins.bool = False
    ) -> Any:
        """The smallest element; with a dimension also its place; with a second tensor the elementwise minimum."""

    def minimum(self, b: Operand) -> Tensor:
        """The smaller of two elements; NaN wins."""

    def mm(self, b: Tensor) -> Tensor:
        """The product of two matrices."""

    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """The most frequent element along a dimension, the smallest of several, and its last place."""

    def moveaxis(
        self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]
    ) -> Tensor:
        """Some dimensions moved to other places, the rest in order. Raises ShapeError if a dimension is named twice."""

    def movedim(
        self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]
    ) -> Tensor:
        """Some dimensions moved to other places, the rest in order. Raises ShapeError if a dimension is named twice."""

    def msort(self) -> Tensor:
        """The elements in order along the first dimension."""

    def mul(self, b: Operand) -> Tensor:
        """a * b"""

    def mul_(self, b: Operand) -> Tensor: ...
    def multinomial(
        self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Indices drawn with the weights in each row of x: int64[..., num_samples]."""

    def multiply(self, b: Operand) -> Tensor:
        """a * b"""

    def multiply_(self, b: Operand) -> Tensor: ...
    def mv(self, b: Tensor) -> Tensor:
        """A matrix times a vector."""

    def mvlgamma(self, p: builtins.int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p."""

    def nan_to_num(
        self,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Tensor:
        """x with numbers in place of NaN (0) and of the infinities (the largest numbers of the type)."""

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
        """The mean of what is not NaN."""

    def nanmedian(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """The lower middle of the elements that are numbers. With a dimension also the place."""

    def nanquantile(
        self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """`quantile` of what is not NaN."""

    def nansum(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """The sum of what is not NaN."""

    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """`length` places of a dimension from `start` on."""

    def narrow_copy(self, *args: Any, **kwargs: Any) -> Any:
        """`narrow`, copied."""

    @property
    def nbytes(self) -> builtins.int:
        """The bytes of all elements."""

    def ndimension(self) -> builtins.int:
        """The number of dimensions."""

    def ne(self, b: Operand) -> Tensor:
        """a != b"""

    def ne_(self, b: Operand) -> Tensor: ...
    def neg(self) -> Tensor:
        """The negative. Raises ShapeError for booleans."""

    def neg_(self) -> Tensor: ...
    def negative(self) -> Tensor:
        """The negative. Raises ShapeError for booleans."""

    def negative_(self) -> Tensor: ...
    def nelement(self) -> builtins.int:
        """The number of elements."""

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
        """The next number from the first operand towards the second. Raises ShapeError for the half types."""

    def nextafter_(self, other: Tensor) -> Tensor: ...
    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """The places of all elements that are not zero: [count, dimensions], or a vector for each dimension."""

    def norm(
        self,
        p: builtins.float | str | None = "fro",
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        dtype: DType | None = None,
    ) -> Tensor:
        """The p-norm of all elements or along dimensions; "fro" is p = 2."""

    def normal_(
        self, mean: builtins.float = 0.0, std: builtins.float = 1.0, generator: Generator | None = None
    ) -> Tensor:
        """Write normal random numbers."""

    def not_equal(self, b: Operand) -> Tensor:
        """a != b"""

    def not_equal_(self, b: Operand) -> Tensor: ...
    def numel(self) -> builtins.int:
        """The number of elements."""

    def ormqr(self, tau: Tensor, other: Tensor, left: builtins.bool = True, transpose: builtins.bool = False) -> Tensor:
        """Q times `other` (or `other` times Q, or with Q^T) for the Q that `geqrf` describes."""

    def outer(self, b: Tensor) -> Tensor:
        """All products of an element of a with one of b."""

    def permute(self, *order: Any, dims: Sequence[builtins.int] | None = None) -> Tensor:
        """The dimensions in another order."""

    def pin_memory(self) -> Tensor:
        """x itself: there is no GPU to copy to."""

    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """The inverse of Moore and Penrose."""

    def polygamma(self, input: Tensor | builtins.int) -> Tensor:
        """Derivative number n of digamma; as a method, n is the argument. Raises ShapeError for a negative n."""

    def polygamma_(self, input: Tensor | builtins.int) -> Tensor: ...
    def positive(self) -> Tensor:
        """x itself. Raises ShapeError for booleans."""

    def pow(self, exponent: Operand) -> Tensor:
        """a to a power; the exponent 2 becomes a product. Raises ShapeError for integers to a negative number."""

    def pow_(self, exponent: Operand) -> Tensor: ...
    def prelu(self, weight: Tensor) -> Tensor:
        """x where it is positive, else weight * x; the weight has one element."""

    def prod(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """The product; integers and bool multiply in int64."""

    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """x with `source` written to, or added at, places of the flat order."""

    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor: ...
    def qr(self, some: builtins.bool | str = True, *, mode: str = "reduced") -> QR:
        """Q with orthonormal columns and the triangle R, A = Q R; only the reduced form."""

    def quantile(
        self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """The q-quantiles of all elements or along a dimension; several q come first in the shape. NaN spreads."""

    def rad2deg(self) -> Tensor:
        """Radians as degrees."""

    def rad2deg_(self) -> Tensor: ...
    def random_(self, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
        """Write random integers: below `to`, in `from`..`to` - 1, or all that the type holds without a gap."""

    def ravel(self) -> Tensor:
        """All elements in one dimension."""

    def reciprocal(self) -> Tensor:
        """1 / x."""

    def reciprocal_(self) -> Tensor: ...
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Call hook(gradient) when the gradient of t is known; what it returns replaces it."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        """Call hook(t) whenever backward has added to t.grad. Raises AutogradError for what is no leaf."""

    def relu(self) -> Tensor:
        """x where it is positive, else 0."""

    def relu_(self) -> Tensor: ...
    def remainder(self, b: Operand) -> Tensor:
        """What is left after floor division; it has the sign of b."""

    def remainder_(self, b: Operand) -> Tensor: ...
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """x with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it."""

    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor: ...
    def repeat(self, *sizes: Any) -> Tensor:
        """x repeated along each dimension."""

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
        """x in the shape of another tensor."""

    def resolve_conj(self) -> Tensor:
        """x itself: it is real."""

    def resolve_neg(self) -> Tensor:
        """x itself: it is real."""

    def retain_grad(self) -> None:
        """Fill `.grad` of a tensor that is no leaf as well."""

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether `retain_grad` was called on a tensor that is no leaf."""

    def roll(
        self, shifts: builtins.int | Sequence[builtins.int], dims: builtins.int | Sequence[builtins.int] | None = None
    ) -> Tensor:
        """Elements moved on along dimensions, those that fall off coming in at the start; flat if none is given."""

    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = ...) -> Tensor:
        """The plane of two dimensions turned by k quarters, from the first towards the second."""

    def round(self, *, decimals: builtins.int = 0) -> Tensor:
        """The nearest number with so many decimals, ties to even; negative ones round to tens, hundreds, ..."""

    def round_(self, *, decimals: builtins.int = 0) -> Tensor: ...
    def rsqrt(self) -> Tensor:
        """One over the square root."""

    def rsqrt_(self) -> Tensor: ...
    def rsub(self, b: Operand, *, alpha: Operand = 1) -> Tensor:
        """b - alpha * a"""

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
        """x with src added at the places along `dim`."""

    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor: ...
    def scatter_reduce(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """x with src combined at the places along `dim` by sum, prod, mean, amax or amin."""

    def scatter_reduce_(
        self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True
    ) -> Tensor: ...
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """One place of a dimension, which disappears. Raises IndexError outside the extent."""

    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """A copy of x with one place of a dimension replaced."""

    def sgn(self) -> Tensor:
        """-1, 0 or 1; a boolean is its own sign."""

    def sgn_(self) -> Tensor: ...
    def short(self) -> Tensor:
        """x as int16."""

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""

    def sigmoid_(self) -> Tensor: ...
    def sign(self) -> Tensor:
        """-1, 0 or 1; a boolean is its own sign."""

    def sign_(self) -> Tensor: ...
    def signbit(self) -> Tensor:
        """Whether the sign is negative, also that of zero."""

    def sin(self) -> Tensor:
        """The sine."""

    def sin_(self) -> Tensor: ...
    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), and 1 at 0."""

    def sinc_(self) -> Tensor: ...
    def sinh(self) -> Tensor:
        """The hyperbolic sine."""

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
        """A copy of x with the places start, start + step, ... of a dimension replaced."""

    def slogdet(self) -> SignLog:
        """The sign and the logarithm of the size of each determinant."""

    def softmax(self, dim: builtins.int, *, dtype: DType | None = None) -> Tensor:
        """exp(x) divided by its sum along a dimension."""

    def sort(
        self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool | None = None
    ) -> ValuesIndices:
        """The elements in order along a dimension, and where they were; equal ones keep their order, NaN is largest."""

    def split(
        self, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0
    ) -> tuple[Tensor, ...]:
        """Views of consecutive pieces of a dimension."""

    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Views of consecutive pieces of the given sizes."""

    def sqrt(self) -> Tensor:
        """The square root."""

    def sqrt_(self) -> Tensor: ...
    def square(self) -> Tensor:
        """x * x"""

    def square_(self) -> Tensor: ...
    def squeeze(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Without its dimensions of extent 1, or without those given if they have extent 1."""

    def std(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """The standard deviation, the root of `var`."""

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
        """The spectra of windows `hop_length` apart: [(batch,) frequency, window, 2] with real and imaginary parts."""

    def storage_offset(self) -> builtins.int:
        """Where the first element lies in the storage."""

    def stride(self, dim: builtins.int | None = None) -> Any:
        """How many elements lie between neighbours of each dimension, or of one."""

    def sub(self, b: Operand, *, alpha: Operand = 1) -> Tensor:
        """a - alpha * b. Raises ShapeError for booleans."""

    def sub_(self, b: Operand, *, alpha: Operand = 1) -> Tensor: ...
    def subtract(self, b: Operand, *, alpha: Operand = 1) -> Tensor:
        """a - alpha * b. Raises ShapeError for booleans."""

    def subtract_(self, b: Operand, *, alpha: Operand = 1) -> Tensor: ...
    def sum(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DType | None = None,
    ) -> Tensor:
        """The sum; integers and bool add up in int64."""

    def sum_to_size(self, *size: Any) -> Tensor:
        """The sum over what broadcasting would repeat: `size` broadcasts to the shape of x."""

    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """Two dimensions exchanged."""

    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dimensions exchanged."""

    def t(self) -> Tensor:
        """A matrix transposed; what has fewer dimensions stays."""

    def take(self, index: Tensor) -> Tensor:
        """Elements of x by their place in the flat order. Raises IndexError outside."""

    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """`gather` whose operands broadcast in the other dimensions; without a dimension, of the flat order."""

    def tan(self) -> Tensor:
        """The tangent."""

    def tan_(self) -> Tensor: ...
    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""

    def tanh_(self) -> Tensor: ...
    def tensor_split(
        self,
        indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor | None = None,
        dim: builtins.int = 0,
        *,
        indices: Sequence[builtins.int] | None = None,
        sections: builtins.int | None = None,
    ) -> tuple[Tensor, ...]:
        """Pieces of nearly equal size, or pieces between the given places."""

    def tile(self, *dims: Any) -> Tensor:
        """x repeated; missing repetitions are 1."""

    def to(
        self, *args: Any, dtype: DType | None = None, device: Any = None, copy: builtins.bool = False, **_: Any
    ) -> Tensor:
        """x with another dtype, on another device, or both; x itself if nothing changes."""

    def topk(
        self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True
    ) -> ValuesIndices:
        """The k largest or smallest elements along a dimension, in order, and where they are."""

    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix."""

    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dimensions exchanged."""

    def triangular_solve(
        self,
        A: Tensor,
        upper: builtins.bool = True,
        transpose: builtins.bool = False,
        unitriangular: builtins.bool = False,
    ) -> Solution:
        """X with A X = B, and a copy of A."""

    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """What lies on and below a diagonal; zeros elsewhere."""

    def tril_(self, diagonal: builtins.int = 0) -> Tensor: ...
    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """What lies on and above a diagonal; zeros elsewhere."""

    def triu_(self, diagonal: builtins.int = 0) -> Tensor: ...
    def true_divide(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """a / b; with rounding_mode "floor" or "trunc" the quotient is rounded and keeps an integer type."""

    def true_divide_(self, b: Operand, *, rounding_mode: str | None = None) -> Tensor: ...
    def trunc(self) -> Tensor:
        """x without its fraction."""

    def trunc_(self) -> Tensor: ...
    def type(self, dtype: DType | str | None = None, non_blocking: builtins.bool = False) -> Any:
        """The name of the type, as "torch.FloatTensor"; with a dtype or such a name, x converted to it."""

    def type_as(self, other: Tensor) -> Tensor:
        """x with the dtype of another tensor."""

    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Every place of a dimension as a tensor of its own."""

    def unflatten(self, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
        """One dimension split into several; one of the new extents may be -1."""

    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """A view of all windows of `size` places along a dimension, `step` apart; the window is the last dimension."""

    def uniform_(self, a: builtins.float = 0.0, b: builtins.float = 1.0, generator: Generator | None = None) -> Tensor:
        """Write uniform random numbers from a to b."""

    def unique(
        self,
        sorted: builtins.bool = True,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """The distinct elements, or slices of a dimension, in order; on request where each went."""

    def unique_consecutive(
        self,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """Elements, or slices of a dimension, without those equal to the one before."""

    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """As `chunk`."""

    def unsafe_split(
        self, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = 0
    ) -> tuple[Tensor, ...]:
        """As `split`."""

    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """A new dimension of extent 1."""

    def var(
        self,
        dim: builtins.int | Sequence[builtins.int] | None = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """The variance: squares about the mean, divided by the number of elements less `correction` (1 by default)."""

    def vdot(self, other: Tensor) -> Tensor:
        """The inner product of two vectors."""

    def view(self, *args: Any, size: Sequence[builtins.int] | None = None) -> Tensor:
        """x in another shape over the same storage; one extent may be -1. Raises OptionMissing for a dtype."""

    def view_as(self, other: Tensor) -> Tensor:
        """x in the shape of another tensor."""

    def vsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
        """Pieces along the rows."""

    def where(self, condition: Tensor, other: Operand) -> Tensor:
        """x where the condition holds, else `other`."""

    def xlogy(self, other: Operand) -> Tensor:
        """x * log(y), and 0 where x is 0."""

    def xlogy_(self, other: Operand) -> Tensor: ...
    def zero_(self) -> Tensor:
        """Write zeros everywhere."""
