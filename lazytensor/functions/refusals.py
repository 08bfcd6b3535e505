"""Functions that the vendor's front end does not lower although a formula for them would: refused in a traced step.

The names are those that the original was seen to refuse, alone, on a float32 tensor. Where somebody listens to
refusals, as a check of a script does, the function is computed all the same.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from lazytensor import source
from lazytensor.errors import CompileError, refuse
from lazytensor.precision import half_type

F = TypeVar("F", bound=Callable[..., Any])

_HUBER = "Write torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).mean() with d = torch.abs(x - y)."
_CELL = "Write the cell with nn.Linear for its gates, torch.sigmoid and torch.tanh."
_UPSAMPLE = "Repeat the elements: x[..., :, None, :, None].expand(..., h, 2, w, 2).reshape(..., 2 * h, 2 * w)."

REFUSED: Mapping[str, tuple[str, str]] = {
    "lerp": ("torch.aten.lerp.Tensor", "Write a + w * (b - a)."),
    "mv": ("torch.aten.mv", "Multiply by a column: (a @ v.unsqueeze(1)).squeeze(1)."),
    "addmv": ("torch.aten.addmv", "Multiply by a column: x + (a @ v.unsqueeze(1)).squeeze(1)."),
    "addbmm": ("torch.aten.addbmm", "Write x + torch.bmm(a, b).sum(0)."),
    "smooth_l1_loss": ("torch.aten.smooth_l1_loss", _HUBER),
    "huber_loss": (
        "torch.aten.huber_loss",
        "Write torch.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)).mean() with d = torch.abs(x - y).",
    ),
    "celu": ("torch.aten.celu", "Write alpha * F.elu(x / alpha) for alpha > 0."),
    "selu": ("torch.aten.elu", "Write 1.0507 * torch.where(x > 0, x, 1.6733 * (torch.exp(x) - 1))."),
    "prelu": ("torch.aten._prelu_kernel", "Write torch.where(x > 0, x, weight * x)."),
    "hardshrink": ("torch.aten.hardshrink", "Write torch.where(torch.abs(x) > lambd, x, 0.0)."),
    "softshrink": ("torch.aten.softshrink", "Write torch.sign(x) * torch.relu(torch.abs(x) - lambd)."),
    "upsample_nearest": ("torch.aten.upsample_nearest2d", _UPSAMPLE),
    "upsample_linear": (
        "torch.aten.upsample_bilinear2d",
        "Resize on the client, use mode='area', or multiply by an interpolation matrix for each dimension.",
    ),
    "lstm_cell": ("custom op 'torch.aten.as_strided' is unknown", _CELL),
    "gru_cell": ("custom op 'torch.aten.as_strided' is unknown", _CELL),
    "erfc": ("torch.aten.erfc", "Write 1 - torch.erf(x)."),
    "exp2": ("torch.aten.exp2", "Write 2.0 ** x."),
    "trunc": ("custom op 'torch.aten.trunc' is unknown", "Write torch.sign(x) * torch.floor(torch.abs(x))."),
    "fix": ("custom op 'torch.aten.trunc' is unknown", "Write torch.sign(x) * torch.floor(torch.abs(x))."),
    "frac": ("torch.aten.frac", "Write x - torch.sign(x) * torch.floor(torch.abs(x))."),
    "logit": ("torch.aten.logit", "Write torch.log(p / (1 - p))."),
    "count_nonzero": ("torch.aten.count_nonzero", "Write (x != 0).sum(dim)."),
    "kthvalue": ("torch.aten.kthvalue", "Write x.sort(dim)[0].select(dim, k - 1)."),
    "rot90": ("torch.aten.as_strided_", "Write x.transpose(0, 1).flip(0)."),
    "nansum": ("torch.aten.nansum", "Write torch.where(x != x, torch.zeros_like(x), x).sum(dim)."),
}
"""By name: what the front end says it cannot lower, and what to write instead."""


def refuse_on_wafer(name: str) -> None:
    """Raise CompileError at the user's line if `name` is called while a step is traced for the wafer."""
    # Only a step traced for the wafer has a half type; on the host every function runs.
    if half_type() is None:
        return
    operation, hint = REFUSED[name]
    # Two kinds of failure of the front end: some names it does not know at all, for others it has no rule.
    what = operation if " " in operation else f"failed to legalize operation '{operation}'"
    refuse("no lowering", CompileError(what, where=source.where(), hint=hint))


def refusing(name: str, function: F) -> F:
    """`function`, which raises CompileError on the wafer if `name` is one that is refused."""
    # Unwrapped, so that all others cost nothing more.
    if name not in REFUSED:
        return function

    @functools.wraps(function)
    def refused(*args: Any, **kwargs: Any) -> Any:
        refuse_on_wafer(name)
        return function(*args, **kwargs)

    return cast(F, refused)
