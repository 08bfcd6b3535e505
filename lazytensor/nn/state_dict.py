"""Collection and loading of the state dicts of modules.

Both traverse the tree of modules and call `_save_to_state_dict` and `_load_from_state_dict` of each, which a module may
override, as in PyTorch. Each module records its version in `_metadata`, so that dicts of older versions can be
converted.
"""

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import ArgumentInvalid, StateError
from lazytensor.functional.in_place import copy_

EXTRA_STATE_KEY = "_extra_state"
"""The key of the value that `get_extra_state` returns, after the prefix of the module."""
_ASSIGN_KEY = "assign_to_params_buffers"


class IncompatibleKeys(NamedTuple):
    """The result of `load_state_dict`: the missing and the unexpected keys."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    def __str__(self) -> str:
        return repr(self)


def collect_state_dict(module: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """Add the state of `module` and its submodules to `destination`, or to a new OrderedDict, and return it.

    `prefix` precedes the keys. If `keep_vars` is true, tensors are not detached. If a state-dict hook returns a value,
    it replaces the dict.
    """
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for hook in list(module._state_dict_pre_hooks.values()):
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in list(module._state_dict_hooks.values()):
        answer = hook(module, destination, prefix, metadata)
        destination = destination if answer is None else answer
    return destination


def _persistent_members(module: Any) -> Iterator[tuple[str, Any]]:
    """Return an iterator over the names and values of the parameters and persistent buffers of `module`.

    Parameters come first. Submodules are not included.
    """
    for name, value in (*module._parameters.items(), *module._buffers.items()):
        if value is not None and name not in module._transient:
            yield name, value


def save_members(module: Any, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """Add the parameters, persistent buffers and extra state of `module`, without its submodules, to `destination`.

    Tensors are detached, unless `keep_vars` is true, and share storage with the module. There is an extra state only if
    the module overrides `get_extra_state`.
    """
    for name, value in _persistent_members(module):
        # Detached but not copied, as in PyTorch: to keep the values, a caller has to clone or save them.
        destination[prefix + name] = value if keep_vars else value.detach()
    if is_overridden(module, "get_extra_state"):
        destination[prefix + EXTRA_STATE_KEY] = module.get_extra_state()


def is_overridden(module: Any, name: str) -> bool:
    """Return whether the class of `module` overrides the method `name` of Module."""
    return getattr(getattr(type(module), name), "is_default", False) is False


def load_state_dict(module: Any, state_dict: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """Load the values of `state_dict` into `module` and its submodules, and return the incompatible keys.

    If `assign` is true, the tensors of the dict replace those of the module. Raises RuntimeError that lists all
    problems: shapes that differ and, if `strict`, missing and unexpected keys. As in PyTorch, values that fit are
    loaded before. Raises TypeError if `state_dict` is not a mapping.
    """
    if not isinstance(state_dict, Mapping):
        raise ArgumentInvalid(
            f"Expected state_dict to be dict-like, got {type(state_dict)}.",
            where=source.where(),
            hint="Pass the result of model.state_dict().",
        )
    metadata = getattr(state_dict, "_metadata", None) or {}
    missing: list[str] = []
    unexpected: list[str] = []
    problems: list[str] = []

    def down(module: Any, state: Any, prefix: str) -> None:
        about = dict(metadata.get(prefix[:-1], {}))
        if assign:
            about[_ASSIGN_KEY] = True
        module._load_from_state_dict(state, prefix, about, True, missing, unexpected, problems)
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                down(child, OrderedDict((k, v) for k, v in state.items() if k.startswith(below)), below)
        for hook in list(module._load_post_hooks.values()):
            hook(module, IncompatibleKeys(missing, unexpected))

    # A copy, so that hooks do not change the caller's dict.
    down(module, OrderedDict(state_dict), "")
    # PyTorch lists missing keys first, then unexpected ones, then shapes.
    if strict and unexpected:
        problems.insert(0, f"Unexpected key(s) in state_dict: {_quote_names(unexpected)}. ")
    if strict and missing:
        problems.insert(0, f"Missing key(s) in state_dict: {_quote_names(missing)}. ")
    if problems:
        lines = "\n\t".join(problems)
        # PyTorch's class and message, since scripts catch and print it.
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n	{lines}\n  {source.where()}: Build "
            "the model with the sizes of the checkpoint, or remove these keys. All other values have been "
            "loaded."
        )
    return IncompatibleKeys(missing, unexpected)


def load_members(
    module: Any,
    state: Any,
    prefix: str,
    metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    problems: list[str],
) -> None:
    """Load parameters, buffers and extra state of `module`, without its submodules.

    Load pre-hooks run first. Missing and unexpected keys (if `strict`) and error messages are appended to the three
    lists. A key that begins with the name of a submodule is not unexpected here.
    """
    for hook in list(module._load_pre_hooks.values()):
        hook(module, state, prefix, metadata, strict, missing, unexpected, problems)
    names = []
    for name, target in _persistent_members(module):
        names.append(name)
        key = prefix + name
        if key in state:
            problem = _load_member(module, name, key, target, state[key], metadata.get(_ASSIGN_KEY, False))
            problems += [problem] if problem else []
        elif strict:
            missing.append(key)
    extra = prefix + EXTRA_STATE_KEY
    if is_overridden(module, "set_extra_state"):
        if extra in state:
            module.set_extra_state(state[extra])
        elif strict:
            missing.append(extra)
    elif strict and extra in state:
        unexpected.append(extra)
    if strict:
        for key in state:
            if not key.startswith(prefix) or key == extra:
                continue
            first, *rest = key[len(prefix) :].split(".", 1)
            if first not in (module._modules if rest else names):
                unexpected.append(key)


def _load_member(module: Any, name: str, key: str, target: Tensor, value: Any, is_assigned: bool) -> str:
    """Write or assign `value` to a parameter or buffer. Return an error message, or "" if it succeeded.

    A vector of one element fits a 0-d target. A copy into a target on the device "meta" warns. Exceptions become
    messages, except StateError, which is raised.
    """
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(value)}"
        )
    # PyTorch before 0.4 stored numbers as vectors of one element.
    if not target.shape and tuple(value.shape) == (1,):
        value = value[0]
    if tuple(value.shape) != tuple(target.shape):
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {target.shape}."
        )
    if target.device.type == "meta" and value.device.type != "meta" and not is_assigned:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)",
            stacklevel=4,
        )
    try:
        with grad_mode(False):
            if is_assigned:
                module.assign_member(name, target, value)
            else:
                # Written to the storage, so that optimizers and tied modules keep it.
                copy_(target, value)
    except StateError:
        raise  # a restriction of the backend, not a fault of this value
    except Exception as e:  # PyTorch collects every exception too
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {target.shape} and whose '
            f"dimensions in the checkpoint are {value.shape}, an exception occurred : {e.args}."
        )
    return ""


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f'"{n}"' for n in names)
