"""Products beyond `matmul`: matrix chains, products with vectors, Kronecker and cross products, and einsum."""

import functools
import math
import operator
import string
from collections.abc import Sequence
from typing import Any

from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ArgumentInvalid, OptionInvalid, ShapeError
from lazytensor.functional import diagonals, joining_and_splitting, matmul, reduction, views
from lazytensor.functional.half_precision import round_once
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import Operand, broadcast_shape, result_type
from lazytensor.functional.views import normalize_dim, unsqueeze
from lazytensor.ops.elementwise import cast


@method(in_place=True)
@round_once
def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    """Return beta * x + alpha * (sum over b of batch1[b] @ batch2[b]), where `x` broadcasts to [m, n].

    The batches are [b, m, k] and [b, k, n]. If `beta` is 0, `x` is ignored. Raises ShapeError for other shapes.

    >>> import lazytensor as lt
    >>> lt.addbmm(lt.zeros(1, 1), lt.ones(2, 1, 3), lt.ones(2, 3, 1))
    tensor([[6.]])
    """
    products = matmul.bmm(batch1, batch2)
    return matmul.add_scaled_product(
        matmul.cast_addend(x), reduction.sum(products, 0, dtype=products.dtype), beta, alpha
    )


@method(in_place=True)
@round_once
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    """Return beta * x + alpha * (mat @ vec) for a matrix [m, k] and a vector [k]; `x` broadcasts to [m].

    If `beta` is 0, `x` is ignored. Raises ShapeError if the shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.addmv(lt.ones(2), lt.eye(2), lt.tensor([5.0, 6.0]))
    tensor([6., 7.])
    """
    return matmul.add_scaled_product(x, matmul.mv(mat, vec), beta, alpha)


@method(in_place=True)
@round_once
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    """Return beta * x + alpha * outer(vec1, vec2) for vectors [m] and [n]; `x` broadcasts to [m, n].

    If `beta` is 0, `x` is ignored. Raises ShapeError if the shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.addr(lt.zeros(2, 2), lt.tensor([1.0, 2.0]), lt.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    return matmul.add_scaled_product(x, matmul.outer(vec1, vec2), beta, alpha)


@method
def ger(x: Tensor, vec2: Tensor) -> Tensor:
    """Return the outer product of two vectors: [m] and [n] give [m, n]. Raises ShapeError for other ranks.

    >>> import lazytensor as lt
    >>> lt.ger(lt.tensor([1, 2]), lt.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    return matmul.outer(x, vec2)


@method
def vdot(x: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of two vectors [n], as a 0-d tensor. Raises ShapeError for other ranks or lengths.

    >>> import lazytensor as lt
    >>> lt.vdot(lt.tensor([1, 2]), lt.tensor([3, 4]))
    tensor(11)
    """
    return matmul.dot(x, other)


@method
def inner(x: Tensor, other: Tensor) -> Tensor:
    """Return the sums of products over the last dimensions: [..., n] and [*, n] give [..., *].

    If an operand is 0-d, return the product. Raises ShapeError if the last extents differ.

    >>> import lazytensor as lt
    >>> lt.inner(lt.tensor([1, 2]), lt.tensor([3, 4]))
    tensor(11)
    """
    if not x.ndim or not other.ndim:
        return x * other
    return tensordot(x, other, ([-1], [-1]))


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Return the sum of products over pairs of dimensions.

    The result has the other dimensions of `a`, then those of `b`. `dims` is a number n, for the last n dimensions of
    `a` and the first n of `b`, or a pair of lists of dimensions. An extent of 1 broadcasts. Raises ShapeError if the
    extents of a pair differ or `dims` is out of range, and OptionInvalid (a ValueError) unless there are two lists.

    >>> import lazytensor as lt
    >>> lt.tensordot(lt.ones(2, 3), lt.ones(3, 4), dims=1).shape
    lazytensor.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        # A one-element tensor is a number of dimensions.
        dims = int(dims) if dims.spec.size == 1 else dims.tolist()
    if isinstance(dims, list | tuple) and len(dims) != 2:
        text = f"tensordot expects dims to be a number or two lists, got {len(dims)} elements"
        raise OptionInvalid(text, where=source.where(), hint="Pass dims as a number, or as two lists of dimensions.")
    if not isinstance(dims, int | list | tuple):
        text = f"tensordot expects dims to be a number or two lists, got {type(dims).__name__}"
        raise ShapeError(
            text, where=source.where(), hint="Pass as many dimensions of the first tensor as of the second."
        )
    # A number pairs the last dimensions of a with the first of b, in order.
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot expects dims >= 0 and at most the ranks, but got dims={dims}",
                where=source.where(),
                hint="Pass a number of dimensions that both tensors have.",
            )
        dims = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    first, second = ([normalize_dim(d, t.ndim) for d in ds] for ds, t in zip(dims, (a, b), strict=True))
    rest_a = [d for d in range(a.ndim) if d not in first]
    rest_b = [d for d in range(b.ndim) if d not in second]
    for i, j in zip(first, second, strict=True):
        sizes = a.spec.shape[i], b.spec.shape[j]
        # An extent of 1 broadcasts: the element is multiplied by the sum of the other operand.
        if sizes[0] == 1:
            b = reduction.sum(b, j, True, dtype=b.dtype)
        elif sizes[1] == 1:
            a = reduction.sum(a, i, True, dtype=a.dtype)
        elif sizes[0] != sizes[1]:
            raise ShapeError(
                f"contracted dimensions need to match, but first has size {sizes[0]} in dim {i} and second has "
                f"size {sizes[1]} in dim {j}",
                where=source.where(),
                hint="Choose dimensions of equal sizes, or transpose one tensor.",
            )
    # All pairs together are one matrix product [other dims of a, summed] @ [summed, other dims of b].
    summed = math.prod(a.spec.shape[d] for d in first)
    left, right = [a.spec.shape[d] for d in rest_a], [b.spec.shape[d] for d in rest_b]
    x = views.reshape(views.permute(a, rest_a + first), (math.prod(left), summed))
    y = views.reshape(views.permute(b, second + rest_b), (summed, math.prod(right)))
    return views.view(matmul.mm(x, y), (*left, *right))


@method
def kron(x: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product: a tensor of blocks x[i, ...] * other, with extents m * n for extents m and n.

    A lower rank is padded with leading extents of 1.

    >>> import lazytensor as lt
    >>> lt.kron(lt.tensor([1, 2]), lt.tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    rank = max(x.ndim, other.ndim)
    a, b = ((1,) * (rank - t.ndim) + t.spec.shape for t in (x, other))
    # x is reshaped to [m, 1, ...] and the other to [1, n, ...]: the product broadcasts, and pairs of dimensions merge.
    left = views.view(x, [e for n in a for e in (n, 1)])
    right = views.view(other, [e for n in b for e in (1, n)])
    return views.view(left * right, tuple((m * n for m, n in zip(a, b, strict=True))))


@method
def cross(x: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return the cross product along `dim`, which has extent 3. The other dimensions broadcast.

    If `dim` is None, it is the first dimension of extent 3. Raises ShapeError if there is none, or if rank or dtype
    differ.

    >>> import lazytensor as lt
    >>> lt.cross(lt.tensor([1, 0, 0]), lt.tensor([0, 1, 0]), dim=0)
    tensor([0, 0, 1])
    """
    if x.ndim != other.ndim or x.dtype is not other.dtype:
        raise ShapeError(
            f"cross: inputs must have the same rank and dtype, but got {x.spec} and {other.spec}",
            where=source.where(),
            hint="Reshape and convert the tensors to one rank and dtype.",
        )
    shape = broadcast_shape(x.spec.shape, other.spec.shape)
    if dim is None:
        dim = next((d for d, e in enumerate(shape) if e == 3), None)
        if dim is None:
            raise ShapeError(
                "no dimension of size 3 in input",
                where=source.where(),
                hint="Pass vectors of three elements, and dim if they are not along the first such dimension.",
            )
    at = normalize_dim(dim, len(shape))
    if {x.spec.shape[at], other.spec.shape[at]} != {3}:
        raise ShapeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {list(x.shape)} and {list(other.shape)}",
            where=source.where(),
            hint="Pass the dimension that has three elements.",
        )
    a, b = (joining_and_splitting.unbind(views.expand(t, shape), at) for t in (x, other))
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return joining_and_splitting.stack(parts, at)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return the sum of x * y along `dim`, in the dtype of the product. The shapes broadcast."""
    product = x * y
    # An integer sum would be int64, while this product keeps the dtype.
    return reduction.sum(product, dim, dtype=product.dtype)


def _optimal_splits(extents: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the cheapest split of each range of matrices (i, j).

    The split is the index of the last matrix of the first factor. Matrix i is [extents[i], extents[i + 1]]. The dynamic
    program minimizes the number of multiplications.
    """
    n = len(extents) - 1
    cost = {(i, i): 0 for i in range(n)}
    place: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1] for k in range(i, j)]
            cost[i, j] = min(costs)
            place[i, j] = i + costs.index(cost[i, j])
    return place


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the matrix product of `tensors` in the order with the fewest multiplications.

    The first tensor may be a vector, which counts as a row, and the last one too, as a column; that dimension is
    removed from the result. Raises ShapeError for fewer than two tensors and for other ranks.
    """
    if len(tensors) < 2:
        raise ShapeError(
            f"multi_dot(): expected at least 2 tensors but got {len(tensors)}",
            where=source.where(),
            hint="Pass at least two tensors.",
        )
    chain = list(tensors)
    # Vectors at the ends become a row and a column; the added dimensions are removed at the end.
    is_row, is_column = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = unsqueeze(chain[0], 0) if is_row else chain[0]
    chain[-1] = unsqueeze(chain[-1], 1) if is_column else chain[-1]
    if any(t.ndim != 2 for t in chain):
        raise ShapeError(
            "multi_dot(): the tensors must be matrices; only the first and the last may be vectors",
            where=source.where(),
            hint="Reshape the inner tensors to matrices.",
        )
    place = _optimal_splits([t.spec.shape[0] for t in chain] + [chain[-1].spec.shape[1]])

    def product(i: int, j: int) -> Tensor:
        return chain[i] if i == j else matmul.mm(product(i, place[i, j]), product(place[i, j] + 1, j))

    out = product(0, len(chain) - 1)
    gone = [d for d, one in ((0, is_row), (1, is_column)) if one]
    return views.view(out, tuple(e for d, e in enumerate(out.spec.shape) if d not in gone))


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of `matrices` in the order with the fewest multiplications. One matrix is returned itself.

    Raises ShapeError for other ranks.

    >>> import lazytensor as lt
    >>> lt.chain_matmul(lt.ones(1, 2), lt.ones(2, 3), lt.ones(3, 1))
    tensor([[6.]])
    """
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


def _ellipsis_labels(count: int) -> str:
    """Return labels for the `count` dimensions of an ellipsis, numbered from the last dimension."""
    # Greek capitals do not occur in equations. Numbering from the last dimension aligns ellipses of different length as
    # broadcasting does.
    return "".join(chr(0x391 + i) for i in reversed(range(count)))


def _parse_equation(equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the result, with ellipses expanded.

    Raises ShapeError if the number of operands or a rank does not match.
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    terms = operands.split(",")
    if len(terms) != len(tensors):
        raise ShapeError(
            f"einsum(): the equation {equation!r} has {len(terms)} operands, but {len(tensors)} were given",
            where=source.where(),
            hint='Pass one tensor for each term before "->".',
        )
    wide = [t.ndim - len(term.replace("...", "")) for term, t in zip(terms, tensors, strict=True)]
    spelled = [term.replace("...", _ellipsis_labels(n)) for term, n in zip(terms, wide, strict=True)]
    for term, t in zip(spelled, tensors, strict=True):
        if len(term) != t.ndim:
            raise ShapeError(
                f"einsum(): the labels {term!r} do not match the shape {list(t.shape)}",
                where=source.where(),
                hint="Write one letter for each dimension of the tensor.",
            )
    widest = _ellipsis_labels(max((n for n, term in zip(wide, terms, strict=True) if "..." in term), default=0))
    if arrow:
        return spelled, result.replace("...", widest)
    # Without an arrow: the ellipsis, then in alphabetical order each label that occurs once.
    letters = "".join(spelled)
    return spelled, widest + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in widest))


def _take_diagonals(x: Tensor, labels: str) -> tuple[Tensor, str]:
    """Return `x` with each repeated label reduced to a diagonal, and the remaining labels.

    `labels` has one letter per dimension. The dimension of a diagonal becomes the last.
    """
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            x = diagonals.diagonal(x, 0, i, j)
            labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + c
    return x, labels


def _reshape_to_groups(x: Tensor, labels: str, groups: Sequence[str], extents: dict[str, int]) -> Tensor:
    """Return `x` permuted and reshaped to one dimension per group of labels. `extents` has the extent of each label."""
    wanted = "".join(groups)
    x = views.permute(x, [labels.index(c) for c in wanted])
    return views.reshape(x, tuple(math.prod(extents[c] for c in g) for g in groups))


def _contract_pair(a: tuple[Tensor, str], b: tuple[Tensor, str], kept: set[str]) -> tuple[Tensor, str]:
    """Return the product of two labelled operands, summed over the labels that are not in `kept`, and its labels.

    Raises ShapeError if the extents of a label differ.
    """
    # Labels of only one operand that are not kept are summed before the product.
    (x, xl), (y, yl) = (_sum_unused_labels(t, kept | set(other[1])) for t, other in ((a, b), (b, a)))
    shared = [c for c in xl if c in yl]
    for c in shared:
        sizes = x.spec.shape[xl.index(c)], y.spec.shape[yl.index(c)]
        if sizes[0] != sizes[1] and 1 not in sizes:
            raise ShapeError(
                f"einsum(): one label has the different extents {sizes}",
                where=source.where(),
                hint="Use different letters for dimensions of different sizes.",
            )
        if sizes[0] != sizes[1]:  # an extent of 1 broadcasts
            x, y = (_expand_dim(t, labels.index(c), max(sizes)) for t, labels in ((x, xl), (y, yl)))
    # Each pair is one batched matrix product: shared labels that are kept form the batch, the others are summed.
    batch = "".join(c for c in shared if c in kept)
    summed = "".join(c for c in shared if c not in kept)
    left, right = ("".join(c for c in labels if c not in shared) for labels in (xl, yl))
    if not summed:
        # Without a sum PyTorch multiplies elementwise, which promotes dtypes; a matrix product would not.
        kind = result_type(x, y)
        x, y = (t if t.dtype is kind else tensor_of(cast(operand_node(t), kind), t) for t in (x, y))
    # Extents by label, which agree for shared labels.
    extents = dict(zip(xl, x.spec.shape, strict=True)) | dict(zip(yl, y.spec.shape, strict=True))
    product = matmul.matmul(
        _reshape_to_groups(x, xl, (batch, left, summed), extents),
        _reshape_to_groups(y, yl, (batch, summed, right), extents),
    )
    labels = batch + left + right
    return views.view(product, tuple(extents[c] for c in labels)), labels


def _contract_pair_as_front_end(a: tuple[Tensor, str], b: tuple[Tensor, str], result: str) -> Tensor:
    """Return the result of `_contract_pair` for the final pair, recorded as the steps of ATen.

    Each operand gets all labels before they are grouped. The values are the same; only the printed graph differs.
    """
    order = result + "".join(sorted({*a[1], *b[1]} - {*result}))
    # Missing labels are added as trailing extents of 1, then permuted to their positions.
    x, y = (_add_labels(t, labels, order) for t, labels in (a, b))
    summed = range(len(result), len(order))
    if not summed:
        return x * y
    is_left, is_right = ([e != 1 for e in t.spec.shape] for t in (x, y))
    for d in summed:  # labels of one operand are summed before the product
        x = x if is_right[d] or not is_left[d] else reduction.sum(x, d, True, dtype=x.dtype)
        y = y if is_left[d] or not is_right[d] else reduction.sum(y, d, True, dtype=y.dtype)
    places = range(len(result))
    batch = [d for d in places if is_left[d] and is_right[d]]
    left = [d for d in places if is_left[d] and not is_right[d]]
    right = [d for d in places if not is_left[d]]
    rows, columns = [*batch, *left, *summed, *right], [*batch, *summed, *right, *left]
    groups = (batch, left, summed), (batch, summed, right)
    stacks = [
        views.reshape(views.permute(t, turned), tuple(math.prod(t.spec.shape[d] for d in g) for g in parts))
        for t, turned, parts in ((x, rows, groups[0]), (y, columns, groups[1]))
    ]
    product = matmul.bmm(*stacks)
    extents = [*(max(x.spec.shape[d], y.spec.shape[d]) for d in places), *(1 for _ in summed)]
    wide = views.view(product, tuple(extents[d] for d in rows))
    turned = views.permute(wide, [rows.index(d) for d in range(len(order))])
    return views.view(turned, tuple(extents[: len(result)]))


def _add_labels(x: Tensor, labels: str, order: str) -> Tensor:
    missing = "".join(c for c in order if c not in labels)
    wide = views.view(x, (*x.spec.shape, *(1 for _ in missing)))
    return views.permute(wide, [(labels + missing).index(c) for c in order])


def _expand_dim(x: Tensor, dim: int, extent: int) -> Tensor:
    return views.expand(x, tuple(extent if d == dim else e for d, e in enumerate(x.spec.shape)))


def _sum_unused_labels(operand: tuple[Tensor, str], kept: set[str]) -> tuple[Tensor, str]:
    x, labels = operand
    gone = [d for d, c in enumerate(labels) if c not in kept]
    if not gone:
        return operand
    return reduction.sum(x, gone, dtype=x.dtype), "".join(c for c in labels if c in kept)


def _parse_sublists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the equation and the tensors of einsum's form with a list of label numbers after each operand.

    An odd number of arguments ends with the list of the result. Raises OptionInvalid (a ValueError) for numbers outside
    0 to 51.
    """

    def term(numbers: Sequence[Any]) -> str:
        if any(n is not ... and not 0 <= n < 52 for n in numbers):
            text = "einsum(): subscript in subscript list is not within the valid range [0, 52)"
            raise OptionInvalid(text, where=source.where(), hint='Use letters, ",", "->" and "...".')
        # Capitals first, since PyTorch orders the labels of an implicit result by number.
        return "".join("..." if n is ... else string.ascii_uppercase[n : n + 1] or chr(71 + n) for n in numbers)

    pairs = len(operands) // 2
    equation = ",".join(term(operands[2 * k + 1]) for k in range(pairs))
    result = f"->{term(operands[-1])}" if len(operands) % 2 else ""
    return equation + result, [operands[2 * k] for k in range(pairs)]


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Return the sum of products of `operands` described by `equation`, such as "bij,bjk->bik".

    Each letter labels a dimension; labels that are not in the result are summed. A repeated label in an operand takes
    the diagonal, and "..." stands for broadcast dimensions. Without "->", the result has the labels that occur once, in
    alphabetical order. Instead of an equation, a list of label numbers may follow each operand. Operands are contracted
    from the left. Raises ShapeError if labels do not fit the shapes, OptionInvalid (a ValueError) without operands, and
    ArgumentInvalid (a TypeError) for another equation.

    >>> import lazytensor as lt
    >>> lt.einsum("ij,j->i", lt.ones(2, 3), lt.tensor([1.0, 2.0, 3.0]))
    tensor([6., 6.])
    """
    if isinstance(equation, Tensor) and operands and not isinstance(operands[0], Tensor):
        equation, listed = _parse_sublists((equation, *operands))
        operands = tuple(listed)
    tensors = list(operands[0]) if len(operands) == 1 and not isinstance(operands[0], Tensor) else list(operands)
    if not tensors:
        text = "einsum(): must specify the equation string and at least one operand, or operands with their labels"
        raise OptionInvalid(text, where=source.where(), hint='Write for example torch.einsum("ij,jk->ik", a, b).')
    if not isinstance(equation, str):
        raise ArgumentInvalid(
            "einsum(): the equation must be a string, or lists of numbers after the operands"
            f", but got {type(equation).__name__}",
            where=source.where(),
            hint='Write for example torch.einsum("ij,jk->ik", a, b).',
        )
    terms, result = _parse_equation(equation, tensors)
    if any(result.count(c) > 1 or not any(c in t for t in terms) for c in result):
        raise ShapeError(
            f"einsum(): the result labels {result!r} do not come from the operands",
            where=source.where(),
            hint="Use letters of the operands in the result, each once.",
        )
    rest = [_take_diagonals(t, term) for t, term in zip(tensors, terms, strict=True)]
    if len(rest) == 2 and half_type() is not None:
        return _contract_pair_as_front_end(rest[0], rest[1], result)
    while len(rest) > 1:
        # From the left, as PyTorch does without opt_einsum, so that results round alike.
        needed = functools.reduce(operator.or_, (set(labels) for _, labels in rest[2:]), set(result))
        rest[:2] = [_contract_pair(rest[0], rest[1], needed)]
    x, labels = _sum_unused_labels(rest[0], set(result))
    return views.permute(x, [labels.index(c) for c in result]) if labels != result else x
