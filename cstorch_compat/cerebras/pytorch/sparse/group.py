"""Several algorithms over one model, each for the parameters that its filter takes; and algorithms from settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cstorch_compat.cerebras.pytorch.sparse.algorithm import Hook, SparsityAlgorithm, Static
from cstorch_compat.cerebras.pytorch.sparse.dynamic import GMP, SET, RigL
from cstorch_compat.cerebras.pytorch.sparse.schedules import collect_subclasses
from cstorch_compat.run.param_filter import FilterCallable, make_pattern_filter
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module, Parameter

# The documentation's own list, and positional embeddings beside it.
DENSE_NAMES = ("embedding", "norm", "lm_head", "pe_helper")
"""Parameters with one of these in their name stay dense by default."""


def default_sparse_param_filter(name: str, param: Parameter) -> bool:
    """Whether a parameter is sparse by default: matrices and larger, but no embeddings, norms and output heads."""
    return len(param.shape) > 1 and not any(part in name.lower() for part in DENSE_NAMES)


NO_LEVEL_MESSAGE = (
    "Group sparsity algorithm does not have a sparsity level. You can access the sparsity of nested sparsity "
    "algorithms by indexing the Group object, i.e. group[0].sparsity"
)


class Group(SparsityAlgorithm):
    """Algorithms by filter; a parameter belongs to the first filter that takes it.

    A filter is a pattern of names such as "fc*.weight", or a function (name, parameter) -> bool.
    """

    @dataclass
    class Filter:
        """An algorithm, and which parameters it is for."""

        filter: FilterCallable
        algorithm: SparsityAlgorithm

    def __init__(self, groups: Mapping[Any, SparsityAlgorithm] | None = None):
        # No level of its own: `apply` and the hooks of the base run here, and each parameter is left to one member.
        super().__init__(None)
        self._groups: list[Group.Filter] = []
        for names, algorithm in (groups or {}).items():
            self.add(names, algorithm)

    def __getitem__(self, index: int) -> SparsityAlgorithm:
        return self._groups[index].algorithm

    def __iter__(self) -> Iterator[SparsityAlgorithm]:
        return (entry.algorithm for entry in self._groups)

    def add(self, filter: Any, algorithm: SparsityAlgorithm) -> None:
        """Add an algorithm for the parameters that the filter takes. Raises TypeError for what is neither."""
        if isinstance(filter, str):
            takes: FilterCallable = make_pattern_filter([filter])
        elif callable(filter):
            takes = filter
        else:
            raise TypeError(f"filter must be a string or callable, got {type(filter)}")
        if not isinstance(algorithm, SparsityAlgorithm):
            raise TypeError(f"algorithm must be an instance of SparsityAlgorithm, got {type(algorithm)}")
        # A group in a group would prune its parameters through both.
        if isinstance(algorithm, Group):
            raise TypeError(
                "algorithm must not be a Group sparsity algorithm. If you want to merge groups, use the extend method."
            )
        self._groups.append(Group.Filter(takes, algorithm))

    def extend(self, group: "Group") -> None:
        """Add the algorithms of another group after these. Raises TypeError for anything else."""
        if not isinstance(group, Group):
            raise TypeError(f"group must be an instance of Group, got {type(group)}")
        self._groups.extend(group._groups)

    @property
    def sparsity(self) -> Any:
        """Raises NotImplementedError: each algorithm has its own."""
        raise NotImplementedError(NO_LEVEL_MESSAGE)

    @sparsity.setter
    def sparsity(self, value: Any) -> None:
        raise NotImplementedError(NO_LEVEL_MESSAGE)

    def sparsify_module(self, module: Module) -> None:
        """Make the parameters that a filter takes sparse. Raises RuntimeError for an empty group."""
        if not self._groups:
            raise RuntimeError("No groups were added to the Group sparsity algorithm")
        super().sparsify_module(module)

    def sparsify_parameter(self, module: Any, name: str, param: Tensor) -> None:
        """Leave a parameter to the first algorithm whose filter takes it."""
        algorithm = next((g.algorithm for g in self._groups if g.filter(name, param)), None)
        if algorithm is not None:
            algorithm.sparsify_parameter(module, name, param)
            # The member decides about the mask; the group prunes, saves and restores it with all others.
            self._take(algorithm.get_sparse_params(param))

    def update(self, optimizer: Any = None) -> None:
        """Let each algorithm change its masks, if it updates by itself."""
        for algorithm in self:
            # The members have no optimizer hooks: only the group was applied.
            if algorithm.autoupdate:
                algorithm.update(optimizer)

    def counters(self) -> dict[str, Tensor]:
        """Those of each algorithm, under its place in the group."""
        return {f"{i}.{name}": t for i, algorithm in enumerate(self) for name, t in algorithm.counters().items()}

    def state_dict(self) -> list[Any]:
        """The state of each algorithm, in order."""
        return [algorithm.state_dict() for algorithm in self]

    def load_state_dict(self, state_dict: list[Any]) -> None:
        """Restore what `state_dict` gave. Raises ValueError if it was a group of another size."""
        for algorithm, state in zip(self, state_dict, strict=True):
            algorithm.load_state_dict(state)

    def register_target_sparsity_hook(self, hook: Hook) -> list[Any]:
        """Register the hook with each algorithm; returns their handles."""
        return [algorithm.register_target_sparsity_hook(hook) for algorithm in self]

    def register_computed_sparsity_hook(self, hook: Hook) -> list[Any]:
        """Register the hook with each algorithm; returns their handles."""
        return [algorithm.register_computed_sparsity_hook(hook) for algorithm in self]


def configure(config: Any) -> Group | None:
    """A group from settings: a level for static sparsity, a dict for one algorithm, or a list of dicts.

    A dict has "algorithm" ("static" unless given), "param_filter" (a pattern of names or a list of them) and what the
    algorithm takes. Raises NameError for an unknown algorithm, TypeError for settings that it does not take. Text is
    no configuration: the answer is None, as in the original, with a warning.

    >>> import torch, cerebras.pytorch as cstorch
    >>> layer = torch.nn.Linear(4, 4)
    >>> model = cstorch.compile(layer, cstorch.backend("CPU"))
    >>> _ = model.apply(cstorch.sparse.configure({"algorithm": "static", "sparsity": 0.5, "param_filter": "*weight"}))
    >>> int((layer.weight == 0).sum())
    0
    """
    if isinstance(config, str):
        warn(f"sparse.configure was given the text {config!r}, which configures nothing: give a level or a dict")
        return None
    # A bare number means static sparsity with the default filter.
    if isinstance(config, int | float):
        config = {"sparsity": config}
    if not isinstance(config, dict | list | tuple):
        raise TypeError(f"Expected a level, a dict or a list of dicts. Got: {type(config)}")
    group = Group()
    for settings in [config] if isinstance(config, dict) else config:
        group.add(*_parse_entry(dict(settings)))
    return group


def _parse_entry(settings: dict[str, Any]) -> tuple[FilterCallable, SparsityAlgorithm]:
    # The key of older releases.
    if "type" in settings and "algorithm" not in settings:
        warn("The 'type' key is deprecated, please use 'algorithm' instead")
        settings["algorithm"] = settings.pop("type")
    kind = map_sparsity_algorithm(settings.pop("algorithm", "static"))
    names = settings.pop("param_filter", None)
    if issubclass(kind, Static) and "sparsity" not in settings:
        raise KeyError("sparsity")
    return _make_filter(names), kind(**settings)


def _make_filter(names: Any) -> FilterCallable:
    if names is None:
        return default_sparse_param_filter
    patterns = [names] if isinstance(names, str) else names
    if not isinstance(patterns, list | tuple) or not all(isinstance(p, str) for p in patterns):
        raise TypeError(f"filter must be a string or list of strings, got {type(names)}")
    return make_pattern_filter(list(patterns))


SPARSITY_ALGORITHMS: dict[str, type[SparsityAlgorithm]] = {
    k.__name__.lower(): k for k in (Static, GMP, SET, RigL, Group)
}


def map_sparsity_algorithm(algorithm: str) -> type[SparsityAlgorithm]:
    """The class of an algorithm by its name, in any case.

    Raises NameError for an unknown one: the type that the original raises, whose own message does not name the choice.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.sparse.map_sparsity_algorithm("set").__name__
    'SET'
    """
    if not isinstance(algorithm, str):
        raise AttributeError(f"{type(algorithm).__name__!r} object has no attribute 'lower'")
    # Built-in names win over classes of scripts that bear them.
    known: dict[str, type[SparsityAlgorithm]] = {**collect_subclasses(SparsityAlgorithm), **SPARSITY_ALGORITHMS}
    kind = known.get(algorithm.lower())
    if kind is None:
        raise NameError(f"Unknown sparsity algorithm {algorithm!r}: expected one of {sorted(known)}")
    return kind
