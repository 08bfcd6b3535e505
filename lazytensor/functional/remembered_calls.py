"""Remember which nodes a call of a public function creates, and create them again for operands of the same types.

The functions in TYPE_DETERMINED record the same nodes whenever their operands have the same types and their other
arguments are equal. From the third such call on, the nodes are created from templates: nothing is checked, promoted or
inferred again. Calls inside a step, with automatic casts, or on another device than the CPU always run the function.
The nodes are those that the function would create, so values and gradients have equal bits.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeVar, cast

from lazytensor.autograd.grad_recording import grad_recording_state
from lazytensor.core import source, storage
from lazytensor.core.autocast import autocast_state
from lazytensor.core.device import CPU
from lazytensor.core.dtype import DType
from lazytensor.core.storage import thread_state
from lazytensor.core.tensor import Tensor, ViewOps, plain_value, tensor_from_storage, wrap
from lazytensor.functional.type_promotion import default_dtype
from lazytensor.ir.graph import Node, NodeTemplate, node_template, record_template, topological
from lazytensor.ir.operation import own_gradient_name, set_gradient_name
from lazytensor.ops import op

F = TypeVar("F", bound=Callable[..., Any])
Key = tuple[Any, ...]

TYPE_DETERMINED = frozenset(
    """
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __rpow__ __matmul__ __neg__ add
    sub subtract mul multiply div divide true_divide pow neg negative eq ne lt le gt ge maximum minimum max min abs
    absolute exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan tanh sinh cosh asin acos atan
    asinh acosh atanh atan2 sigmoid erf erfc sign floor ceil round trunc clamp clamp_min clamp_max lerp addcmul addcdiv
    logical_and logical_or logical_not where where_method masked_fill logaddexp logsigmoid relu gelu silu leaky_relu elu
    celu selu prelu softplus hardtanh relu6 hardswish hardsigmoid mish glu softsign tanhshrink softmax log_softmax
    softmin sum mean var std amax amin argmax argmin logsumexp prod norm cumsum view unsqueeze squeeze reshape transpose
    permute t flatten unflatten expand expand_as narrow movedim swapaxes getitem select tril triu flip roll repeat tile
    matmul mm bmm dot mv outer addmm baddbmm einsum linear bilinear conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d layer_norm group_norm rms_norm batch_norm avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d
    adaptive_avg_pool1d adaptive_avg_pool2d pixel_shuffle interpolate cat concat stack mse_loss l1_loss smooth_l1_loss
    huber_loss kl_div binary_cross_entropy_with_logits normalize cosine_similarity
    """.split()
)
"""Names of functions whose nodes depend only on the types of the operands and on the other arguments.

A function that reads a value, writes to a tensor or draws a random number while it is learned is not remembered, so a
name may be listed even if some calls do that.
"""
VIEW_FUNCTIONS = frozenset(
    """
    view unsqueeze squeeze reshape transpose permute t flatten unflatten expand expand_as narrow movedim swapaxes
    getitem select
    """.split()
)
"""Names in TYPE_DETERMINED that show their first operand. They do not read memory that NumPy shares, so they are not
remembered for it: a key has the node of each operand, and creating it copies the memory.
"""
MAX_CALLS = 512
"""Number of remembered calls for one function. A full table is cleared."""
MAX_SINGLE_CALLS = 64
"""Number of calls of one function that came once. A full table is cleared."""
_PLAIN_CLASSES = frozenset((int, bool, str, NoneType, type(Ellipsis), DType))


class _Recipe(NamedTuple):
    """How to create the result of a call from the nodes of its operands.

    - `constants`: constant nodes that are reused.
    - `steps`: a template, operand indices and the number of tensors that had the node inside of the function, for each
      node to create. Indices count the operands, then the constants, then the created nodes; the last created node is
      the result.
    - `base`: for a view, the index of the operand that it shows; otherwise None.
    - `view_ops`: for a view, the view operations that are added to those of the operand.
    - `gradient_name`: the name of the result's gradient function if it is not that of the last operation, or None.
    """

    constants: tuple[Node, ...]
    steps: tuple[tuple[NodeTemplate, tuple[int, ...], int], ...]
    base: int | None
    view_ops: ViewOps
    gradient_name: str | None


def remember_calls(function: F, name: str) -> F:
    """Return `function`, published as `name`, wrapped to remember its calls; itself if it is not in TYPE_DETERMINED."""
    if name not in TYPE_DETERMINED:
        return function
    recipes: dict[Key, _Recipe | None] = {}
    single: set[Key] = set()
    is_view = name in VIEW_FUNCTIONS

    @functools.wraps(function)
    def remembering(*args: Any, **kwargs: Any) -> Any:
        if (
            thread_state.current is not None
            or storage.is_abstract
            or autocast_state.host is not None
            or autocast_state.half is not None
            or (is_view and args and isinstance(args[0], Tensor) and storage.is_pinned(args[0].cell))
        ):
            return function(*args, **kwargs) if kwargs else function(*args)
        parts: list[Any] = [grad_recording_state.records_gradients, default_dtype()]
        operands: list[Tensor] = []
        nodes: list[Node] = []
        if not _add_arguments(parts, operands, nodes, args) or (
            kwargs and not _add_keywords(parts, operands, nodes, kwargs)
        ):
            return function(*args, **kwargs) if kwargs else function(*args)
        if not parts[0]:
            _add_plain_values(parts, nodes)
        key = tuple(parts)
        recipe = recipes.get(key)
        if recipe is not None:
            result = _replay(recipe, operands, nodes)
            if result is not None:
                return result
        elif operands and key not in recipes:
            if key in single:
                if len(recipes) >= MAX_CALLS:
                    recipes.clear()
                before = thread_state.effects
                result = function(*args, **kwargs)
                is_pure = thread_state.effects == before
                recipes[key] = _learn(result, operands, nodes) if is_pure else None
                return result
            if len(single) >= MAX_SINGLE_CALLS:
                single.clear()
            single.add(key)
        return function(*args, **kwargs) if kwargs else function(*args)

    return cast(F, remembering)


def _add_arguments(parts: list[Any], operands: list[Tensor], nodes: list[Node], values: Sequence[Any]) -> bool:
    """Add what determines the nodes of a call to `parts`, and the tensors among the arguments and their nodes.

    Return False for an argument that cannot be part of a key, and for a tensor that is not on the CPU.
    """
    for value in values:
        kind = value.__class__
        if isinstance(value, Tensor):
            if value.device is not CPU:
                return False
            # The cached node of the property `node`: outside of steps it is valid while the storage has the same value.
            stored = value.cell.node
            n: Node = value._node if stored is not None and stored is value._seen else value.node  # type: ignore[assignment]
            if n in nodes:
                parts.append(nodes.index(n))
            parts += (kind, n.type.shape, n.type.dtype, n.tracks)
            operands.append(value)
            nodes.append(n)
            if value.view_ops:
                # Strides decide whether a view exists. The number of a leaf does not matter.
                parts += (value.cell.type, tuple([step for step in value.view_ops if step[0] != "variable"]))
        elif kind in _PLAIN_CLASSES:
            parts += (kind, value)
        elif kind is float:
            # Zeros differ by their sign, which `==` ignores.
            parts += (kind, value if value else str(value))
        elif kind is list or kind is tuple:
            parts += (kind, len(value))
            if not _add_arguments(parts, operands, nodes, value):
                return False
        elif kind is slice:
            parts.append(kind)
            if not _add_arguments(parts, operands, nodes, (value.start, value.stop, value.step)):
                return False
        else:
            return False
    return True


def _add_plain_values(parts: list[Any], nodes: list[Node]) -> None:
    """Add the values of leaves without gradient history to `nodes`, which calls read while gradients are off.

    Add their indices to `parts`.
    """
    for k, n in enumerate(nodes[:]):
        if n.tracks and (value := plain_value(n)) is not None:
            parts.append(k)
            nodes.append(value)


def _add_keywords(parts: list[Any], operands: list[Tensor], nodes: list[Node], values: Mapping[str, Any]) -> bool:
    parts += values
    return _add_arguments(parts, operands, nodes, (*values.values(),))


def _learn(result: Any, operands: Sequence[Tensor], nodes: Sequence[Node]) -> _Recipe | None:
    """Return how to create `result` again, or None if it is not a new tensor that only depends on the operands."""
    if (
        result.__class__ is not Tensor
        or result.__dict__
        or result.device is not CPU
        or any(result is t for t in operands)
    ):
        return None
    base, view_ops = _view_of(result, operands)
    if base is None and (result.view_ops or result.history is not None or result.cell.version):
        return None
    # A value that another tensor has is cloned by its storage, and not by the function.
    numbers = {n: k for k, n in enumerate(nodes)}
    out = result.node
    if out in numbers or out.op == "clone":
        return None
    # Values other than those of views are checked only for integers, such as a divisor of zero.
    if base is None and any(n.type.dtype.kind == "i" for n in nodes):
        return None
    new = [n for n in topological([out], numbers.__contains__) if n not in numbers]
    constants = [n for n in new if not n.inputs]
    work = [n for n in new if n.inputs]
    if any(n.op not in ("full", "const") for n in constants):
        return None
    # A node with a number of its own stands for one tensor, and one with notes has been used by autograd.
    name = own_gradient_name(out)
    if any(n.op in ("variable", "custom_vjp") or "uid" in n.attrs or (n.memo and n is not out) for n in work):
        return None
    if out.memo and (name is None or len(out.memo) > 1):
        return None
    # An operand that occurs twice has one number, but two places.
    numbers |= {n: k for k, n in enumerate((*constants, *work), len(nodes))}
    # Backward frees the nodes that tensors had, also those of tensors inside of the function.
    steps = tuple(
        (node_template(n), tuple(numbers[i] for i in n.inputs), n.cells - (n is out and base is None)) for n in work
    )
    return _Recipe(tuple(constants), steps, base, view_ops, name)


def _view_of(result: Tensor, operands: Sequence[Tensor]) -> tuple[int | None, ViewOps]:
    """Return the index of the operand that `result` is a view of and the added view operations; None for no view."""
    for k, t in enumerate(operands):
        if result.cell is t.cell and result.history is t.history and not t.__dict__:
            before: ViewOps = (*t.view_ops, ("variable", (("uid", t.leaf_id),))) if t.leaf_id else t.view_ops
            if result.view_ops[: len(before)] == before:
                return k, result.view_ops[len(before) :]
    return None, ()


def _replay(recipe: _Recipe, operands: Sequence[Tensor], nodes: list[Node]) -> Tensor | None:
    """Return the result of a remembered call, or None if a view of the operand cannot be made without the function."""
    constants, steps, base, view_ops, name = recipe
    place = source.where()
    nodes += constants
    n = nodes[0]
    for template, inputs, cells in steps:
        n = record_template(template, tuple([nodes[k] for k in inputs]), place)
        if cells:
            n.cells += cells
        if n.tracks and op.check_saved_operands is not None:
            op.check_saved_operands(n)
        nodes.append(n)
    if name is not None:
        set_gradient_name(n, name)
    if base is None:
        return wrap(n)
    t = operands[base]
    if t.__dict__ or t.cell.node is None:
        return None
    leaf_step: ViewOps = (("variable", (("uid", t.leaf_id),)),) if t.leaf_id else ()
    view = tensor_from_storage(t.cell, (*t.view_ops, *leaf_step, *view_ops), t.history)
    view._seen, view._node = t._seen, n
    return view
