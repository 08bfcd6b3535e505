"""A group of sparsity algorithms, each for the parameters that its filter accepts, and algorithms from settings."""

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

# The list in the vendor's documentation, and positional embeddings.
DENSE_NAMES = ("embedding", "norm", "lm_head", "pe_helper")
"""A parameter whose name contains one of these parts stays dense by default."""


def default_sparse_param_filter(name: str, param: Parameter) -> bool:
    """Return whether a parameter is sparse by default.

    This is the case if it has at least two dimensions and its name contains no part of `DENSE_NAMES`.
    """
    return len(param.shape) > 1 and not any(part in name.lower() for part in DENSE_NAMES)


NO_LEVEL_MESSAGE = (
    "Group sparsity algorithm does not have a sparsity level. You can access the sparsity of nested sparsity "
    "algorithms by indexing the Group object, i.e. group[0].sparsity"
)


class Group(SparsityAlgorithm):
    """A sparsity algorithm that assigns each parameter to the first member whose filter accepts it.

    `groups` maps filters to algorithms. A filter is a pattern of names, such as "fc*.weight", or a function (name,
    parameter) -> bool.
    """

    @dataclass
    class Filter:
        """An algorithm with the filter of its parameters."""

        filter: FilterCallable
        algorithm: SparsityAlgorithm

    def __init__(self, groups: Mapping[Any, SparsityAlgorithm] | None = None):
        # The group has no sparsity level. Its own `apply` and hooks run, and each parameter is assigned to one member.
        super().__init__(None)
        self._groups: list[Group.Filter] = []
        for names, algorithm in (groups or {}).items():
            self.add(names, algorithm)

    def __getitem__(self, index: int) -> SparsityAlgorithm:
        return self._groups[index].algorithm

    def __iter__(self) -> Iterator[SparsityAlgorithm]:
        return (entry.algorithm for entry in self._groups)

    def add(self, filter: Any, algorithm: SparsityAlgorithm) -> None:
        """Add `algorithm` for the parameters that `filter` accepts.

        Raises TypeError if `filter` is neither text nor callable, if `algorithm` is not a sparsity algorithm, or if it
        is a group.
        """
        if isinstance(filter, str):
            takes: FilterCallable = make_pattern_filter([filter])
        elif callable(filter):
            takes = filter
        else:
            raise TypeError(
                f"filter must be a string or callable, got {type(filter)}\n  Pass a pattern of names, or a function."
            )
        if not isinstance(algorithm, SparsityAlgorithm):
            raise TypeError(
                f"algorithm must be an instance of SparsityAlgorithm, got {type(algorithm)}"
                "\n  Create an algorithm, such as cstorch.sparse.Static(sparsity=0.8)."
            )
        # A nested group would prune its parameters twice.
        if isinstance(algorithm, Group):
            raise TypeError(
                "algorithm must not be a Group sparsity algorithm. If you want to merge groups, use the extend method."
                "\n  Call extend() to merge groups."
            )
        self._groups.append(Group.Filter(takes, algorithm))

    def extend(self, group: "Group") -> None:
        """Append the algorithms of another group. Raises TypeError if `group` is not a `Group`."""
        if not isinstance(group, Group):
            raise TypeError(f"group must be an instance of Group, got {type(group)}\n  Pass a cstorch.sparse.Group.")
        self._groups.extend(group._groups)

    @property
    def sparsity(self) -> Any:
        """Raise NotImplementedError, because each member has its own sparsity."""
        raise NotImplementedError(NO_LEVEL_MESSAGE + "\n  Read the level of one of its algorithms.")

    @sparsity.setter
    def sparsity(self, value: Any) -> None:
        raise NotImplementedError(NO_LEVEL_MESSAGE + "\n  Set the level of one of its algorithms.")

    def sparsify_module(self, module: Module) -> None:
        """Make the parameters of `module` that a filter accepts sparse, except those with `requires_dense = True`.

        Raises RuntimeError if the group has no members. It only issues a warning if no parameter is sparse afterwards,
        or if the module is sparse already.
        """
        if not self._groups:
            raise RuntimeError(
                "No groups were added to the Group sparsity algorithm\n  Call add(filter, algorithm) first."
            )
        super().sparsify_module(module)

    def sparsify_parameter(self, module: Any, name: str, param: Tensor) -> None:
        """Make `param` sparse with the first algorithm whose filter accepts it.

        Without such an algorithm it stays dense.
        """
        algorithm = next((g.algorithm for g in self._groups if g.filter(name, param)), None)
        if algorithm is not None:
            algorithm.sparsify_parameter(module, name, param)
            # The member computes the mask, and the group prunes, saves and restores it.
            self._take(algorithm.get_sparse_params(param))

    def update(self, optimizer: Any = None) -> None:
        """Call `update` of each member whose `autoupdate` is True."""
        for algorithm in self:
            # The members have no optimizer hooks, because only the group was applied.
            if algorithm.autoupdate:
                algorithm.update(optimizer)

    def counters(self) -> dict[str, Tensor]:
        """Return the counters of all members, with names that begin with the member's index."""
        return {f"{i}.{name}": t for i, algorithm in enumerate(self) for name, t in algorithm.counters().items()}

    def state_dict(self) -> list[Any]:
        """Return the list of the members' state dicts."""
        return [algorithm.state_dict() for algorithm in self]

    def load_state_dict(self, state_dict: list[Any]) -> None:
        """Restore the state returned by `state_dict`, a list with one entry for each member.

        Raises ValueError if the number of members differs, but only after the members that both have were restored.
        """
        for algorithm, state in zip(self, state_dict, strict=True):
            algorithm.load_state_dict(state)

    def register_target_sparsity_hook(self, hook: Hook) -> list[Any]:
        """Register `hook` with each member, and return the list of handles."""
        return [algorithm.register_target_sparsity_hook(hook) for algorithm in self]

    def register_computed_sparsity_hook(self, hook: Hook) -> list[Any]:
        """Register `hook` with each member, and return the list of handles."""
        return [algorithm.register_computed_sparsity_hook(hook) for algorithm in self]


def configure(config: Any) -> Group | None:
    """Return a group of sparsity algorithms described by `config`.

    `config` is a number (static sparsity of that level), a dict (one algorithm), or a list of dicts. The keys of a dict
    are:

    - "algorithm": the name of the algorithm; "static" by default.
    - "param_filter": a pattern of names or a list of patterns; by default that of `default_sparse_param_filter`.
    - other keys: arguments of the algorithm, such as "sparsity".

    Raises NameError for an unknown algorithm, and TypeError for arguments that it does not accept. Text is not
    supported: it issues a warning and returns None, as in the original.

    >>> import torch, cerebras.pytorch as cstorch
    >>> layer = torch.nn.Linear(4, 4)
    >>> model = cstorch.compile(layer, cstorch.backend("CPU"))
    >>> _ = model.apply(cstorch.sparse.configure({"algorithm": "static", "sparsity": 0.5, "param_filter": "*weight"}))
    >>> int((layer.weight == 0).sum())
    0
    """
    if isinstance(config, str):
        warn(f"sparse.configure got the string {config!r}, which configures nothing: pass a sparsity level or a dict")
        return None
    # A number means static sparsity with the default filter.
    if isinstance(config, int | float):
        config = {"sparsity": config}
    if not isinstance(config, dict | list | tuple):
        raise TypeError(
            f"Expected a sparsity level, a dict or a list of dicts. Got: {type(config)}"
            "\n  Pass a number, a dict, or a list of dicts."
        )
    group = Group()
    for settings in [config] if isinstance(config, dict) else config:
        group.add(*_parse_entry(dict(settings)))
    return group


def _parse_entry(settings: dict[str, Any]) -> tuple[FilterCallable, SparsityAlgorithm]:
    # Older releases use the key "type".
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
        raise TypeError(
            f"filter must be a string or list of strings, got {type(names)}"
            "\n  Pass a pattern of names, or a list of them."
        )
    return make_pattern_filter(list(patterns))


SPARSITY_ALGORITHMS: dict[str, type[SparsityAlgorithm]] = {
    k.__name__.lower(): k for k in (Static, GMP, SET, RigL, Group)
}
"""The built-in algorithms by lower-case name."""


def map_sparsity_algorithm(algorithm: str) -> type[SparsityAlgorithm]:
    """Return the class of the sparsity algorithm named `algorithm`, in any case. User-defined subclasses are included.

    Raises NameError for an unknown name, as the original does, and AttributeError if `algorithm` is not text.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.sparse.map_sparsity_algorithm("set").__name__
    'SET'
    """
    if not isinstance(algorithm, str):
        raise AttributeError(f"{type(algorithm).__name__!r} object has no attribute 'lower'")
    # Built-in classes take precedence over user-defined classes of the same name.
    known: dict[str, type[SparsityAlgorithm]] = {**collect_subclasses(SparsityAlgorithm), **SPARSITY_ALGORITHMS}
    kind = known.get(algorithm.lower())
    if kind is None:
        raise NameError(f"Unknown sparsity algorithm {algorithm!r}: expected one of {sorted(known)}")
    return kind
