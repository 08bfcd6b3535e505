"""Draws statements about modules: calls, modes, state dicts, and training with optimizers, schedules and scalers."""

from dataclasses import dataclass

from tests.campaign.programs.state import Program, Storage, Value

ONE = ("Linear(4, 4)", "LayerNorm(4)", "BatchNorm1d(4)", "Dropout(0.25)", "ReLU()", "GELU()", "Tanh()", "Softmax(-1)",
       "Identity()", "Linear(4, 4, bias=False)", "GroupNorm(2, 4)", "RMSNorm(4)", "PReLU()", "Softplus()",
       "LogSoftmax(1)", "Sigmoid()", "Hardswish()", "SiLU()", "utils.weight_norm(nn.Linear(4, 4))",
       "utils.parametrizations.weight_norm(nn.Linear(4, 4))", "Sequential(nn.Linear(4, 4), nn.ELU())")  # fmt: skip
MODULES = (
    ("nn.Embedding(5, 4)", "torch.tensor([[0, 2, 4, 2]])"),
    ("nn.Embedding(5, 4, padding_idx=0, max_norm=1.0)", "torch.tensor([0, 1, 1])"),
    ("nn.Conv1d(2, 3, 2)", "torch.randn(2, 2, 5)"),
    ("nn.Conv2d(2, 2, 3, padding=1, groups=2)", "torch.randn(1, 2, 4, 4)"),
    ("nn.ConvTranspose1d(2, 1, 2, stride=2)", "torch.randn(1, 2, 3)"),
    ("nn.BatchNorm2d(2)", "torch.randn(3, 2, 2, 2)"),
    ("nn.BatchNorm1d(3, momentum=None)", "torch.randn(4, 3)"),
    ("nn.LSTM(3, 2, batch_first=True)", "torch.randn(2, 3, 3)"),
    ("nn.GRU(3, 2, num_layers=2)", "torch.randn(3, 1, 3)"),
    ("nn.RNN(2, 2, bidirectional=True)", "torch.randn(3, 1, 2)"),
    ("nn.MultiheadAttention(4, 2, batch_first=True)", None),
    ("nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)", "torch.randn(2, 3, 4)"),
    ("nn.MaxPool2d(2)", "torch.randn(1, 1, 4, 5)"),
    ("nn.AvgPool1d(2, ceil_mode=True)", "torch.randn(1, 2, 5)"),
    ("nn.AdaptiveAvgPool1d(2)", "torch.randn(1, 2, 5)"),
    ("nn.Upsample(scale_factor=2)", "torch.randn(1, 1, 3)"),
    ("nn.EmbeddingBag(5, 3)", "torch.tensor([[0, 1], [2, 2]])"),
    ("nn.utils.weight_norm(nn.Linear(3, 2))", "torch.randn(2, 3)"),
    ("nn.InstanceNorm1d(2, affine=True)", "torch.randn(2, 2, 4)"),
)
LOSSES = (
    "F.mse_loss({o}, {y})", "F.cross_entropy({o}, {c})", "F.l1_loss({o}, {y})", "F.smooth_l1_loss({o}, {y})",
    "F.nll_loss(F.log_softmax({o}, 1), {c})", "F.binary_cross_entropy_with_logits({o}, ({y} > 0).float())",
    "F.kl_div(F.log_softmax({o}, 1), F.softmax({y}, 1), reduction='batchmean')", "({o} * {y}).mean()",
    "F.cross_entropy({o}, {c}, label_smoothing=0.1)", "F.huber_loss({o}, {y}, delta=0.5)",
    "F.cross_entropy({o}, {c}, ignore_index=1)", "F.binary_cross_entropy(torch.sigmoid({o}), ({y} > 0).float())",
)  # fmt: skip
OPTIMIZERS = (
    "SGD({p}, lr=0.1)", "SGD({p}, lr=0.1, momentum=0.9)",
    "SGD({p}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)",
    "Adam({p}, lr=0.01)", "Adam({p}, lr=0.01, amsgrad=True)", "AdamW({p}, lr=0.01, weight_decay=0.1)",
    "RMSprop({p}, lr=0.01, momentum=0.5)", "RMSprop({p}, lr=0.01, centered=True)", "Adagrad({p}, lr=0.1, lr_decay=0.1)",
    "Adadelta({p})", "Adamax({p}, lr=0.01)", "NAdam({p}, lr=0.01)", "RAdam({p}, lr=0.01)", "ASGD({p}, lr=0.01)",
    "Rprop({p}, lr=0.01)", "Adam({p}, lr=0.01, maximize=True)", "SGD({p}, lr=torch.tensor(0.1))",
    "Adam([{{'params': {p}, 'lr': 0.02}}], lr=0.01)",
    "AdamW([{{'params': [q for q in {p} if q.dim() > 1], 'weight_decay': 0.1}}, "
    "{{'params': [q for q in {p} if q.dim() <= 1], 'lr': 0.02}}], lr=0.01, amsgrad=True)",
    "SGD([{{'params': list({p})[:1], 'momentum': 0.9}}, {{'params': list({p})[1:]}}], lr=0.05, weight_decay=0.1)",
    "SGD({p}, lr=0.1, momentum=0.9, dampening=0.5)", "LBFGS({p}, lr=0.1, max_iter=3)",
    "AdamW({m}.named_parameters(), lr=0.01)",
)  # fmt: skip
SCHEDULES = (
    "StepLR({o}, 2, 0.5)", "ExponentialLR({o}, 0.9)", "CosineAnnealingLR({o}, 4)", "LinearLR({o}, 0.5, 1.0, 3)",
    "LambdaLR({o}, lambda k: 1 / (k + 1))", "OneCycleLR({o}, 0.2, total_steps=12)", "MultiStepLR({o}, [1, 3], 0.1)",
    "CyclicLR({o}, 0.01, 0.1, 2, cycle_momentum=False)", "PolynomialLR({o}, 4, 2.0)", "ConstantLR({o}, 0.5, 2)",
    "SequentialLR({o}, [torch.optim.lr_scheduler.ConstantLR({o}, 0.1, 2), "
    "torch.optim.lr_scheduler.ExponentialLR({o}, 0.9)], [2])",
    "CosineAnnealingWarmRestarts({o}, 2)", "ReduceLROnPlateau({o}, patience=0)", "MultiplicativeLR({o}, lambda k: 0.9)",
    "ChainedScheduler([torch.optim.lr_scheduler.ConstantLR({o}, 0.1, 2), "
    "torch.optim.lr_scheduler.ExponentialLR({o}, 0.9)])",
)  # fmt: skip


def _inexact(p: Program, coarsest: str = "float32") -> Storage:
    p.uses_generator = True
    return Storage(is_exact=False, coarsest=coarsest)


def module_call(p: Program) -> None:
    """A module that is called once or twice in training or evaluation, and its gradients."""
    name, out = p.name("m"), p.name()
    kind, data = p.pick(MODULES)
    lines = [f"{name} = {kind}"]
    if p.chance(0.3):
        lines.append(f"{name}.eval()")
    if p.chance(0.1):
        half = p.pick(("bfloat16", "float64"))
        lines.append(f"{name}.to(torch.{half})")
        if data is not None and "randn" in data:
            data += f".to(torch.{half})"
            if p.noise is not None and half == "bfloat16":
                data = f"(1.006 * {data})"
        storage = _inexact(p, half if half == "bfloat16" else "float32")
    else:
        storage = _inexact(p)
    call = f"{name}(*[torch.randn(2, 3, 4)] * 3)" if data is None else f"{name}({data})"
    if p.chance(0.3):
        lines.append(f"{name}.register_forward_hook(lambda m, a, o: show('forward', type(m).__name__))")
    lines.append(f"{out} = first({call})")
    if p.chance(0.5):
        lines.append(f"{out} = first({call})")
    if p.chance(0.7):
        lines.append(f"{out}.pow(2).sum().backward()")
        lines.append(f"show('{name}', [q.grad for q in {name}.parameters()])")
    lines.append(f"show('{name}', {{k: v for k, v in {name}.state_dict().items()}})")
    p.add("\n".join(lines))
    p.values.append(Value(out, (), "float", storage, tracks=True))


def training(p: Program) -> None:
    """A small training with what scripts have: reused buffers, schedules, clipping, scalers, files, copies."""
    t = _draw_training(p)
    change, before, body = _change_of_model(p, t), _before(p, t), "\n    ".join(_step(p, t))
    # Numbers that differ in their last place show which results rounding decides.
    last_place = 2e-3 if "autocast" in body else 2e-7
    noise = [f"[q.data.mul_({1 + last_place}) for q in {t.m}.parameters()]"] if p.noise is not None else []
    p.add("\n".join([f"{t.m} = {t.model}", *noise, *change, f"{t.o} = torch.optim.{t.optimizer}", *before]))
    p.add(f"for k in range({p.random.randint(1, 3)}):\n    {body}")
    if p.chance(0.5):
        p.add("\n".join(_change_between(p, t)))
        p.add(f"for k in range(2):\n    {body}")
    state = f"{t.o}.state_dict()['state']" if "LBFGS" not in t.optimizer else "0"
    p.add(f"show('weights', {{k: v for k, v in {t.m}.state_dict().items()}}, {state})")
    if t.has_average:
        p.add(f"show('average', {{k: v for k, v in average_{t.m}.state_dict().items()}})")


@dataclass(frozen=True)
class Training:
    """A random training: names of variables of the program, and expressions as text.

    `m`, `o`, `s` and `x` are the names of the model, the optimizer, the schedule and the input; `y` and `c` those of
    the targets, as numbers and as classes. `schedule` is None for a training without one.
    """

    m: str
    o: str
    s: str
    x: str
    y: str
    c: str
    model: str
    optimizer: str
    schedule: str | None
    rows: int
    has_scaler: bool
    has_buffer: bool
    has_average: bool
    is_kept: bool


def _draw_training(p: Program) -> Training:
    _inexact(p)
    names = {letter: p.name(letter) for letter in "mosxyc"}
    layers = ", ".join(f"nn.{p.pick(ONE)}" for _ in range(p.random.randint(1, 3)))
    return Training(
        **names,
        model=f"nn.Sequential(nn.Linear(3, 4), {layers})",
        optimizer=p.pick(OPTIMIZERS).format(p=f"{names['m']}.parameters()", m=names["m"]),
        schedule=p.pick(SCHEDULES).format(o=names["o"]) if p.chance(0.5) else None,
        rows=0 if p.chance(0.04) else p.random.randint(2, 4),
        has_scaler=p.chance(0.2),
        has_buffer=p.chance(0.5),
        has_average=p.chance(0.15),
        is_kept=p.chance(0.2),
    )


def _change_of_model(p: Program, t: Training) -> list[str]:
    """Return statements that change or observe a model, for the time before its optimizer is made."""
    form = p.random.randrange(12)
    if form == 0:
        return [f"{t.m}[0].register_full_backward_hook(lambda m, i, o: show('backward', i, o))"]
    if form == 1:
        return [f"{t.m}[0].bias.register_hook(lambda g: g * 2)"]
    if form == 2:
        return [f"{t.m}[0].bias.requires_grad_(False)"]
    if form == 3:
        return [f"{t.m}.append(nn.Linear(4, 4)); {t.m}.append(nn.Linear(4, 4)); {t.m}[-1].weight = {t.m}[-2].weight"]
    if form == 4:
        state = "{'0.weight': torch.ones(4, 3), 'x': torch.ones(1)}"
        return [f"show('keys', {t.m}.load_state_dict({state}, strict=False))"]
    if form == 5:
        return [f"show('names', list({t.m}.state_dict(prefix='a.')), [k for k, _ in {t.m}.named_modules(prefix='b')])"]
    if form == 6:
        return [f"{t.m}.apply(lambda m: nn.init.constant_(m.bias, 0.5) if isinstance(m, nn.Linear) else None)"]
    return []


def _before(p: Program, t: Training) -> list[str]:
    """Return the lines between the optimizer and the loop."""
    lines = [f"{t.s} = torch.optim.lr_scheduler.{t.schedule}"] if t.schedule else []
    if t.has_scaler:
        lines.append(f"scaler_{t.m} = torch.amp.GradScaler('cpu', init_scale=4.0, growth_interval=2)")
    if t.has_average:
        average = p.pick(("", ", multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)", ", use_buffers=True"))
        lines.append(f"average_{t.m} = torch.optim.swa_utils.AveragedModel({t.m}{average})")
    if t.has_buffer:
        lines.append(f"buffer_{t.m} = np.zeros(({t.rows}, 3), np.float32)")
    if t.is_kept:
        lines.append(f"kept_{t.m} = []")
    return [*lines, f"{t.y}, {t.c} = torch.randn({t.rows}, 4), torch.randint(0, 4, ({t.rows},))"]


def _step(p: Program, t: Training) -> list[str]:
    """Return the lines of one step of training."""
    body = [f"{t.x} = torch.randn({t.rows}, 3)"]
    if t.has_buffer:
        numbers = f"np.arange({t.rows * 3}).reshape({t.rows}, 3) % (k + 2) - 1"
        body = [f"buffer_{t.m}[:] = {numbers}", f"{t.x} = torch.from_numpy(buffer_{t.m})"]
    loss = f"loss_{t.m} = " + p.pick(LOSSES).format(o=f"{t.m}({t.x})", y=t.y, c=t.c)
    body.append(f"with torch.autocast('cpu', dtype=torch.bfloat16):\n        {loss}" if p.chance(0.12) else loss)
    zero = p.pick((f"{t.o}.zero_grad()", f"{t.m}.zero_grad()", f"{t.o}.zero_grad(set_to_none=False)"))
    is_late = p.chance(0.2)
    if "LBFGS" in t.optimizer:
        closure = ["def closure():", f"    global loss_{t.m}", f"    {t.o}.zero_grad()", f"    {loss}"]
        closure += [f"    loss_{t.m}.backward()", f"    return loss_{t.m}", f"{t.o}.step(closure)"]
        return [*body[: 2 if t.has_buffer else 1], *closure, f"show('loss', loss_{t.m}.item())"]
    scaled = f"scaler_{t.m}.scale(loss_{t.m})" if t.has_scaler else f"loss_{t.m}"
    body += [*([] if is_late else [zero]), f"{scaled}.backward()"]
    if p.chance(0.1):
        body += [f"({t.m}(torch.randn({t.rows}, 3)).pow(2).mean() / 2).backward()"]
    if t.has_scaler and p.chance(0.3):
        body += [f"if k == 0: {t.m}[0].weight.grad[0, 0] = float('inf')"]
    if p.chance(0.3):
        clip = p.pick(
            (
                "clip_grad_norm_({}.parameters(), 0.5)",
                "clip_grad_norm_({}.parameters(), 1, float('inf'))",
                "clip_grad_norm_({}.parameters(), 0.5, error_if_nonfinite=True)",
                "clip_grad_value_({}.parameters(), 0.1)",
            )
        )
        body += [f"scaler_{t.m}.unscale_({t.o})"] if t.has_scaler else []
        body.append(f"torch.nn.utils.{clip.format(t.m)}")
    body.append(f"scaler_{t.m}.step({t.o}); scaler_{t.m}.update()" if t.has_scaler else f"{t.o}.step()")
    body += [zero] if is_late else []
    body += [f"average_{t.m}.update_parameters({t.m})"] if t.has_average else []
    measure = f"loss_{t.m}" if "Plateau" in (t.schedule or "") else ""
    body += [f"{t.s}.step({measure})", f"show('rate', {t.s}.get_last_lr())"] if t.schedule else []
    body.append(f"show('loss', loss_{t.m}.item())")
    if t.is_kept:
        form = p.pick(("data", "detach()", "detach().clone()", "detach().numpy()"))
        body.append(f"kept_{t.m}.append({t.m}[0].weight.{form})")
    return body


def _change_between(p: Program, t: Training) -> list[str]:
    """Return the lines between two loops: saved and loaded, copied, changed or frozen weights, or an evaluation."""
    m, o, form = t.m, t.o, p.random.randrange(6)
    schedule = [f"{t.s} = torch.optim.lr_scheduler.{t.schedule}"] if t.schedule else []
    if form == 0:
        states = f"'m': {m}.state_dict(), 'o': {o}.state_dict()" + (f", 's': {t.s}.state_dict()" if schedule else "")
        lines = [f"file_{m} = loaded({{{states}}})", f"{m} = {t.model}", f"{o} = torch.optim.{t.optimizer}", *schedule]
        lines += [f"{m}.load_state_dict(file_{m}['m'])", f"{o}.load_state_dict(file_{m}['o'])"]
        if t.schedule and "lambda" not in t.schedule:
            lines.append(f"{t.s}.load_state_dict(file_{m}['s'])")
        return lines
    if form == 1:
        return [f"{m} = copy.deepcopy({m})", f"{o} = torch.optim.{t.optimizer}", *schedule]
    if form == 2:
        return [f"with torch.no_grad():\n    for q in {m}.parameters():\n        q.mul_(0.5)"]
    if form == 3:
        return [f"{m}.eval()", f"show('eval', {m}(torch.ones(2, 3)))"]
    if form == 4:
        return [f"{m}[0].weight.requires_grad_(False)"]
    return [f"{m}[0].weight.data.copy_(torch.ones(4, 3))", f"{o}.param_groups[0]['lr'] = 0.05"]
