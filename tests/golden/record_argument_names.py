"""Record the argument names of PyTorch's functions, where it is installed.

Run `record_argument_names.py > argument_names.txt` in an environment with PyTorch 2.13.0.

A line of `tests/golden/argument_names.txt` has the name of a function, a colon, and its arguments for each of its forms
after a bar; a question mark follows a name with a default value. Forms for complex numbers and named dimensions, and
results (`out`), are left out. `tests/cstorch_compat/names/test_argument_names.py` follows the file.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

OWNERS = {
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch.linalg": torch.linalg,
    "torch.special": torch.special,
    "torch.nn.functional": torch.nn.functional,
}
PREFIXES = {"torch.linalg": "linalg_", "torch.special": "special_"}
"""The beginnings of the names of operators whose functions are in these modules."""
SIZES = {"size", "n", "end", "steps"}
"""Arguments by which a form without tensors creates one; other such forms are for plain numbers."""


def forms(path: str, name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield the arguments of each form of a function."""
    if inspect.isfunction(function):
        parameters = [*inspect.signature(function).parameters.values()]
        if all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
            words = [p.name + "?" * (p.default is not p.empty) for p in parameters]
            yield " ".join(words[1:] if path == "torch.Tensor" else words)
        return
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{PREFIXES.get(path, '')}{name}"):
        arguments = [a for a in schema.arguments if not a.is_out]
        names, kinds = [a.name for a in arguments], [str(a.type) for a in arguments]
        has_tensor = any("Tensor" in kind for kind in kinds)
        if (not has_tensor and not SIZES & {*names}) or "names" in names or any("str[]" in kind for kind in kinds):
            continue
        # Only operators on tensors call their operand "self"; forms with these letters are for plain numbers.
        if "self" not in names and (path == "torch.Tensor" or {*names} & {*"abltidx", "list"}):
            continue
        words = [a.name + "?" * (a.has_default_value() or a.type.kind() == "OptionalType") for a in arguments]
        if path == "torch.Tensor":
            words.remove("self")
        yield " ".join("input" if word == "self" else word for word in words)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(f"# Arguments of PyTorch {torch.__version__.partition('+')[0]}. Recorded by record_argument_names.py.")
    for path, owner in OWNERS.items():
        for name in sorted(dir(owner)):
            function = getattr(owner, name)
            if not name.startswith("_") and callable(function) and not isinstance(function, type):
                found = dict.fromkeys(f for f in forms(path, name, function) if f)
                if found:
                    print(f"{path}.{name}: {' | '.join(found)}")
