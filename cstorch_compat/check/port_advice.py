"""Advise on calls of PyTorch in a plain script that the Cerebras API replaces. The calls are read from the source."""

import re

from cstorch_compat.check.findings import Findings
from cstorch_compat.check.own_files import read_script_files
from cstorch_compat.names import mirror_table

SAVE_ADVICE = (
    "Write cstorch.save(model.state_dict(), path) in a @cstorch.checkpoint_closure, and pass checkpoint_steps to the "
    "DataExecutor."
)
RATE_ADVICE = (
    "Use a schedule of cstorch.optim.lr_scheduler, which is a tensor of the global step, and call its step() in the "
    "traced function after optimizer.step()."
)
_LEAVE_OUT_PARALLEL = "Leave it out, and pass a ClusterConfig with the number of systems to cstorch.backend."
CALL_ADVICE = {
    r"torch\.save": SAVE_ADVICE,
    r"torch\.load": "Use cstorch.load, which reads files of torch.save and of cstorch.save.",
    r"torch\.(cuda\.)?amp\.(grad_scaler\.)?GradScaler": "Use cstorch.amp.GradScaler.",
    r"torch\.compile": "Leave it out: cstorch.compile prepares the model.",
    r"torch\.nn\.(parallel\.)?(DataParallel|DistributedDataParallel)": _LEAVE_OUT_PARALLEL,
    r"torch\.distributed\.init_process_group": _LEAVE_OUT_PARALLEL,
    r"torch\.utils\.tensorboard\.SummaryWriter": "Use cerebras.pytorch.utils.tensorboard.SummaryWriter, and call "
    "add_scalar in a @cstorch.step_closure.",
    r"torch\.optim\.lr_scheduler\.\w+": RATE_ADVICE,
}
"""The advice on a call, by a pattern for the dotted name of the function."""
SCHEDULES, VENDOR_SCHEDULES = "torch.optim.lr_scheduler.", "cerebras.pytorch.optim.lr_scheduler"


def advise_on_calls(findings: Findings, script: str) -> None:
    """Add a note for each call in `script` and in its own modules that has advice."""
    for file in read_script_files(script):
        for call in file.names.calls:
            advice = _find_advice(call.name)
            if advice:
                findings.add("port", call.place, call.name, way_out=advice)


def _find_advice(name: str) -> str:
    """Return the advice on a call of the function with a dotted name, or "" if there is none."""
    schedule = name.removeprefix(SCHEDULES)
    if schedule != name and schedule in mirror_table.entries()[VENDOR_SCHEDULES].names:
        override = ", and override set_value_lambda()" if schedule == "LambdaLR" else ""
        return (
            f"Use cstorch.optim.lr_scheduler.{schedule}, which takes the initial learning rate{override}. Call its "
            "step() in the traced function after optimizer.step()."
        )
    return next((advice for pattern, advice in CALL_ADVICE.items() if re.fullmatch(pattern, name)), "")
