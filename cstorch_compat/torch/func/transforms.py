"""Function transforms of `torch.func`: gradients, vmap, and calls of modules with other parameters.

`vmap` calls its function once for each sample. All calls are part of one graph, and the results are those of PyTorch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cstorch_compat.torch.autograd.functional import compute_gradients
from lazytensor import random, stack
from lazytensor.core import source
from lazytensor.core.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.functional.creation import zeros_like
from lazytensor.nn import Module

Function = Callable[..., Any]


@contextmanager
def _replace_members(module: Module, values: dict[str, Any], strict: bool) -> Iterator[None]:
    """Return a context manager in which parameters and buffers of `module` are replaced by `values`, given by path.

    At the end the previous objects are restored. With `strict`, unknown and missing names raise RuntimeError. Otherwise
    unknown names are ignored, and missing ones keep their value.
    """
    own = _named_tensors(module)
    unknown, missing = sorted(values.keys() - own.keys()), sorted(own.keys() - values.keys())
    if strict and (unknown or missing):
        told = [f"\n\tUnexpected key(s): {', '.join(map(repr, unknown))}."] if unknown else []
        told += [f"\n\tMissing key(s): {', '.join(map(repr, missing))}."] if missing else []
        raise ShapeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:" + "".join(told),
            where=source.where(),
            hint="Pass the names and shapes of the module's parameters.",
        )
    places = []
    for path, value in ((k, v) for k, v in values.items() if k in own):
        owner = module.get_submodule(path.rpartition(".")[0])
        name = path.rpartition(".")[2]
        # Bypass `__setattr__`, which does not accept a plain tensor as a parameter.
        members = owner._parameters if name in owner._parameters else owner._buffers
        places.append((members, name, members[name]))
        members[name] = value
    try:
        yield
    finally:
        # Changes of a buffer during the call are discarded with the replaced value.
        for members, name, before in reversed(places):
            members[name] = before


def _expand_tied(module: Module, values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with each value repeated for all names of the same (tied) parameter or buffer.

    Raises ValueError if tied names have different values.
    """
    groups: dict[int, list[str]] = {}
    for name, member in _named_tensors(module).items():
        groups.setdefault(id(member), []).append(name)
    out = dict(values)
    for names in groups.values():
        given = {k: values[k] for k in names if k in values}
        if len({id(v) for v in given.values()}) > 1:
            raise OptionInvalid(
                f"functional_call got multiple values for keys {sorted(given)}, which are tied. "
                "Consider using tie_weights=False",
                where=source.where(),
                hint="Pass one value for the tied keys, or tie_weights=False.",
            )
        if given:
            out.update(dict.fromkeys(names, next(iter(given.values()))))
    return out


def _named_tensors(module: Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of `module` by name, with tied ones under all their names."""
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Any] | Sequence[dict[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with other parameters and buffers, and return its result.

    - `parameter_and_buffer_dicts`: values by name, as one dict or several; a name in two dicts raises ValueError.
    - `args`: a tuple of arguments, or a single argument.
    - `tie_weights`: apply a value to all names of a tied parameter; different values for them raise ValueError.
    - `strict`: raise RuntimeError for unknown and missing names.
    """
    given = parameter_and_buffer_dicts
    parts = [given] if isinstance(given, dict) else list(given)
    names = [k for part in parts for k in part]
    if repeated := sorted({k for k in names if names.count(k) > 1}):
        raise OptionInvalid(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous",
            where=source.where(),
            hint="Pass each key in one dictionary.",
        )
    values = {k: v for part in parts for k, v in part.items()}
    if tie_weights:
        values = _expand_tied(module, values)
    places = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replace_members(module, values, strict):
        return module(*places, **(kwargs or {}))


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of modules with equal structure, each stacked along a new first dimension.

    The parameters are detached copies that require a gradient. Raises RuntimeError if `models` is empty, and KeyError
    if a module lacks a name of the first one.
    """
    if not models:
        raise ShapeError(
            "stack_module_state: Expected at least one model, got 0.",
            where=source.where(),
            hint="Pass at least one model.",
        )
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    stacked = {k: stack([p[k].detach() for p in parameters]).requires_grad_() for k in parameters[0]}
    return stacked, {k: stack([b[k] for b in buffers]) for k in buffers[0]}


@dataclass(frozen=True)
class TrackedArguments:
    """The arguments of a function, in which the tensors to differentiate by are replaced by tracked leaves.

    - `leaves`: the tensors to differentiate by.
    - `structure`: the nesting of the selected arguments.
    - `arguments`: the arguments to call the function with.
    - `is_inner`: whether this derivative is computed inside an outer one.
    """

    leaves: list[Tensor]
    structure: Any
    arguments: tuple[Any, ...]
    is_inner: bool
    """Whether a tensor belongs to an outer derivative, whose graph continues through this one."""

    @classmethod
    def of(cls, places: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]) -> "TrackedArguments":
        """Return a record of `args` in which the tensors at the positions `places` require a gradient.

        Arguments may be nested structures of tensors. A tensor that requires a gradient already is kept; others are
        replaced by detached leaves. If any argument requires a gradient, results remain differentiable for an outer
        derivative.
        """
        flat, structure = tree_flatten([args[k] for k in places])
        is_inner = any(t.requires_grad for t in tree_leaves([list(args), kwargs]) if isinstance(t, Tensor))
        leaves = [t if t.requires_grad else t.detach().requires_grad_() for t in flat]
        chosen = dict(zip(places, tree_unflatten(leaves, structure), strict=True))
        return cls(leaves, structure, tuple(chosen.get(k, a) for k, a in enumerate(args)), is_inner)

    def gradients(self, outputs: Any, seeds: Any = None) -> list[Tensor]:
        """Return the gradients of `outputs`, weighted by `seeds`, with respect to each leaf.

        A leaf that the outputs do not depend on gets zeros.
        """
        slopes = compute_gradients(outputs, self.leaves, seeds, self.is_inner)
        return [self.finished(zeros_like(t) if g is None else g) for g, t in zip(slopes, self.leaves, strict=True)]

    def finished(self, value: Any) -> Any:
        """Return a nested structure with its tensors detached, unless an outer derivative needs their graph."""
        return value if self.is_inner else tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, value)

    def alike(self, values: Sequence[Tensor], is_one: bool) -> Any:
        """Return tensors (one for each leaf) in the nesting of the arguments, as a tuple unless `is_one`."""
        by_argument = tree_unflatten(list(values), self.structure)
        return by_argument[0] if is_one else tuple(by_argument)


def grad_and_value(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """Return a function that computes the gradient of `func` with respect to the arguments at `argnums`, and its value.

    With `has_aux`, `func` returns (value, aux) and the result is (gradient, (value, aux)). The function raises
    RuntimeError if the value is not a scalar tensor.
    """
    places = (argnums,) if isinstance(argnums, int) else argnums

    def derived(*args: Any, **kwargs: Any) -> Any:
        tracked = TrackedArguments.of(places, args, kwargs)
        result = func(*tracked.arguments, **kwargs)
        value, aux = result if has_aux else (result, None)
        if not isinstance(value, Tensor) or value.ndim:
            raise ShapeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor",
                where=source.where(),
                hint="Reduce the result in the function, for example with .sum().",
            )
        answer = tracked.alike(tracked.gradients(value), isinstance(argnums, int))
        value = tracked.finished(value)
        return (answer, (value, aux)) if has_aux else (answer, value)

    return derived


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """Return a function that computes the gradient of the scalar `func` with respect to the arguments at `argnums`.

    The gradient is nested like the argument; a tuple `argnums` gives a tuple. With `has_aux`, `func` returns (value,
    aux) and the result is (gradient, aux). The function raises RuntimeError if the value is not a scalar tensor.
    """
    both = grad_and_value(func, argnums, has_aux)

    def derived(*args: Any, **kwargs: Any) -> Any:
        answer, value = both(*args, **kwargs)
        return (answer, value[1]) if has_aux else answer

    return derived


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """Return a function that calls `func` with each sample of its arguments and stacks the results.

    - `in_dims`: the mapped dimension of each positional argument, or None to pass it unchanged. Keyword arguments are
      mapped over dimension 0.
    - `out_dims`: the position of the new dimension in each result.
    - `randomness`: "same" gives each call the same random numbers, "different" continues the sequence, and "error"
      raises RuntimeError if a call uses the default generator.
    - `chunk_size`: no effect.

    The function raises ValueError if mapped dimensions have different sizes.
    """
    if randomness not in ("error", "different", "same"):
        raise ShapeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}",
            where=source.where(),
            hint="Pass one of these values.",
        )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        dims = in_dims if isinstance(in_dims, tuple | list) else (in_dims,) * len(args)
        sizes = {t.shape[d] for a, d in zip(args, dims, strict=True) if d is not None for t in tree_leaves(a)}
        if len(sizes) != 1:
            raise OptionInvalid(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got {sizes}",
                where=source.where(),
                hint="Pass tensors of equal sizes in the mapped dimension.",
            )
        one_call = _seed_randomness(func, randomness)
        calls = [
            one_call(*(_sample(a, d, k) for a, d in zip(args, dims, strict=True)), **_sample(kwargs, 0, k))
            for k in range(sizes.pop())
        ]
        flat = [tree_flatten(c) for c in calls]
        many = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(flat[0][0])
        columns = zip(*(leaves for leaves, _ in flat), strict=True)
        return tree_unflatten([stack(list(c), d) for c, d in zip(columns, many, strict=True)], flat[0][1])

    return mapped


def _seed_randomness(func: Function, randomness: str) -> Function:
    """Return `func` wrapped to handle the default random generator according to `randomness`.

    "different" returns `func` itself. With "same" each call begins with the present state of the generator. With
    "error" a call that uses the generator raises RuntimeError afterwards.
    """
    if randomness == "different":
        return func
    generator = random.default_generator
    start = generator.get_state()

    def called(*args: Any, **kwargs: Any) -> Any:
        if randomness == "same":
            generator.set_state(start)
        out = func(*args, **kwargs)
        if randomness == "error" and bool((generator.get_state() != start).any()):
            raise ShapeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap",
                where=source.where(),
                hint='Pass randomness="different" or randomness="same".',
            )
        return out

    return called


def _sample(argument: Any, dim: int | None, k: int) -> Any:
    if dim is None:
        return argument
    return tree_map(lambda t: t.select(dim, k) if isinstance(t, Tensor) else t, argument)
