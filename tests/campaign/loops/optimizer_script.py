"""Writes the optimizer of a drawn loop, its schedules, scaler and metrics, and their part of a step."""

from collections.abc import Mapping
from typing import Any

from tests.campaign.loops.drawing import Loop
from tests.campaign.loops.script_lines import has_training, is_regression


def _arguments(arguments: Mapping[str, Any]) -> str:
    return "".join(f", {k}={_literal(v)}" for k, v in arguments.items())


def _literal(value: Any) -> str:
    return repr(tuple(value)) if isinstance(value, list) else repr(value)


RATE_NAMES = {"initial": "initial_learning_rate", "end": "end_learning_rate", "value": "learning_rate"}
RATE_NAMES |= {"base": "base_lr", "max": "max_lr", "values": "learning_rates"}
DECAY_NAMES = {"initial": "initial_val", "end": "end_val", "value": "val", "base": "base_val", "max": "max_val"}
DECAY_NAMES |= {"values": "vals"}


def schedule_text(spec: list[Any], family: str = "lr") -> str:
    """Return the expression that makes a schedule: of the rate ("lr"), or of weight decay ("wd")."""
    suffix, module = ("LR", "lr_scheduler") if family == "lr" else ("WD", "weight_decay_scheduler")
    space, (kind, *rest) = f"cstorch.optim.{module}.", spec
    if kind == "Sequential":
        parts = ", ".join(schedule_text(part, family) for part in rest[0])
        return f"{space}Sequential{suffix}(optimizer, [{parts}], milestones={rest[1]})"
    if kind == "Chained":
        return f"{space}Chained{suffix}([{', '.join(schedule_text(part, family) for part in rest[0])}])"
    if kind == "ScalePerParam":
        return f"{space}ScalePerParam{suffix}(optimizer, {schedule_text(rest[0], family)})"
    names = RATE_NAMES if family == "lr" else DECAY_NAMES
    arguments = "".join(f", {names.get(k, k)}={v!r}" for k, v in rest[0].items())
    name = kind if kind == "CosineAnnealingWarmRestarts" and family == "lr" else f"{kind}{suffix}"
    return f"{space}{name}(optimizer{arguments})"


def optimizer_text(full: Loop) -> str:
    """Return the making of optimizer, schedules, scaler and metrics; without training only of the metrics."""
    if not has_training(full):
        return metrics_text(full)
    name, arguments = full["optimizer"]
    # Muon takes matrices only.
    parameters = "[p for p in model.parameters() if p.ndim > 1]" if name == "Muon" else "model.parameters()"
    lines = []
    if full["groups"] == 2 and name != "Muon":
        lines += [
            "weights = [p for p in model.parameters() if p.ndim > 1]",
            "others = [p for p in model.parameters() if p.ndim <= 1]",
        ]
        extra = ', "adjust_learning_rate": 0.5' if (full["schedule"] or [""])[0] == "ScalePerParam" else ""
        parameters = f'[{{"params": weights}}, {{"params": others, "lr": 0.02{extra}}}]'
    lines.append(f"optimizer = cstorch.optim.{name}({parameters}{_arguments(arguments)})")
    if full["sparsity"] is not None:
        lines.append("optimizer.apply(sparsity)")
    if full["schedule"]:
        lines.append(f"schedule = {schedule_text(full['schedule'])}")
    if full["decay_schedule"]:
        lines.append(f"decay_schedule = {schedule_text(full['decay_schedule'], 'wd')}")
    if full["step_call"] != "plain":
        argument = "" if full["scale"] is None else f"loss_scale={full['scale']!r}"
        lines.append(f"scaler = cstorch.amp.GradScaler({argument})")
    return "\n".join([*lines, metrics_text(full)])


def metrics_text(full: Loop) -> str:
    """Return the making of the metrics, and of the writer of summaries."""
    lines = [
        f'metric{n} = cstorch.metrics.{name}(name="metric{n}"{_arguments(arguments)})'
        for n, (name, arguments) in enumerate(full["metrics"])
    ]
    if full["summaries"]:
        lines.append('writer = SummaryWriter("summaries")')
    return "\n".join(lines)


def metric_lines(full: Loop) -> list[str]:
    """Return the calls of the metrics in a step."""
    calls = []
    labels = "y.argmax(-1)" if is_regression(full) else "y"
    for n, (name, _) in enumerate(full["metrics"]):
        binary = f"labels=({labels} > 0).int(), predictions=torch.sigmoid(out[:, 0].float())"
        arguments = {
            "MeanMetric": "out.float().abs()",
            "PerplexityMetric": f"labels={labels}, loss=loss.detach().float()",
            "AUCMetric": binary,
            "PrecisionAtKMetric": f"labels={labels}.unsqueeze(-1), predictions=out",
            "RecallAtKMetric": f"labels={labels}.unsqueeze(-1), predictions=out",
        }.get(name, f"labels={labels}, predictions=out.argmax(-1).to({labels}.dtype)")
        calls.append(f"value{n} = metric{n}({arguments})")
    return calls


def update_lines(full: Loop) -> list[str]:
    """Return the backward pass and the update of a training step."""
    clips = []
    if full["clip"]:
        clips = [f"torch.nn.utils.clip_grad_{full['clip'][0]}_(model.parameters(), {full['clip'][1]})"]
    zero = "optimizer.zero_grad(set_to_none=False)" if full["zero_grad"] == "zeros" else "optimizer.zero_grad()"
    if full["step_call"] == "optimizer_step":
        limit = f", max_gradient_{full['clip'][0]}={full['clip'][1]}" if full["clip"] else ""
        lines = [f"cstorch.amp.optimizer_step(loss, optimizer, scaler{limit})"]
    elif full["step_call"] == "scaler":
        lines = [zero, "scaler.scale(loss).backward()", "scaler.unscale_(optimizer)", *clips]
        lines += ["scaler.step(optimizer)", "scaler.update()"]
    elif full["zero_grad"] == "after":
        lines = ["loss.backward()", *clips, "optimizer.step()", zero]
    else:
        lines = [zero, "loss.backward()", *clips, "optimizer.step()"]
    lines += ["schedule.step()"] if full["schedule"] else []
    return [*lines, *(["decay_schedule.step()"] if full["decay_schedule"] else [])]
