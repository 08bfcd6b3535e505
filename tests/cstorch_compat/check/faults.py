"""Planted faults: for each rule a piece of a script whose marked line has to be reported, by that rule alone."""

from dataclasses import dataclass

FRAME = """
import random
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, i):
        return torch.full((6,), float(i % 5)), torch.tensor(i % 3), torch.tensor(i % 4)

def input_fn():
    return torch.utils.data.DataLoader(Data(), batch_size=4, drop_last=True)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.table = nn.Linear(6, 8), nn.Linear(8, 3), nn.Embedding(8, 8)
        {layers}
    def forward(self, x, token):
        h = F.relu(self.fc1(x)) + self.table(token)
        {forward}
        return self.fc2(h)

{before}
backend = cstorch.backend("CSX")
model = Model()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
scaler = cstorch.amp.GradScaler(loss_scale="dynamic")
{setup}
count = 0

@cstorch.trace
def step(batch):
    x, y, token = batch
    out = compiled(x, token)
    {step}
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss

@cstorch.step_closure
def log(loss):
    print(loss.item())

executor = cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(input_fn), num_steps=4)
for batch in executor:
    loss = step(batch)
    {loop}
    log(loss)
"""
SLOTS = {"layers": 8, "forward": 8, "before": 0, "setup": 0, "step": 4, "loop": 4}


@dataclass(frozen=True)
class Fault:
    """Code for one slot of the frame, and the rule that its line marked `# fault` breaks."""

    rule: str
    slot: str
    code: str
    replaces: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


def script(*faults: Fault) -> str:
    """The frame with faults in it."""
    text = FRAME
    for f in faults:
        for old, new in f.replaces:
            assert old in text
            text = text.replace(old, new)
    for slot, indent in SLOTS.items():
        codes = [code for f in faults for s, code in ((f.slot, f.code), *f.extra) if s == slot]
        body = "\n".join(filter(None, codes)).replace("\n", "\n" + " " * indent)
        text = text.replace("{" + slot + "}", body or "pass")
    return text


def applied(text: str, findings: list[dict]) -> str:
    """The script with the proposed lines in place of those that were found."""
    lines = text.splitlines()
    for finding in findings:
        if finding["suggestion"]:
            old = lines[finding["line"] - 1]
            lines[finding["line"] - 1] = old[: len(old) - len(old.lstrip())] + finding["suggestion"]
    return "\n".join(lines) + "\n"


def after(code: str) -> tuple[tuple[str, str], ...]:
    """The replacement that puts code after the loop."""
    return (("    log(loss)\n", f"    log(loss)\n{code}\n"),)


ATTENTION = "self.attend = nn.MultiheadAttention(8, 2, batch_first=True)"
LATE_STATE = """
class Late(cstorch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
    def preinitialize(self):
        pass
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
                self.state[p]["momentum"].add_(p.grad * 0.5)  # fault
                p.sub_(self.state[p]["momentum"] * group["lr"])
"""
WIDE = "input_fn = lambda: [(torch.ones(4, 6).double(), torch.arange(4) % 3, torch.ones(4).long())] * 3"
BATCHES = """
    for i in range(3):
        yield torch.full((4, 6), float(i)), torch.arange(4) % 3, torch.arange(4)
"""
LOOP = ("for batch in executor:", "for batch in executor:  # fault")

FAULTS = [
    Fault("LW101", "step", "best = out.sum().item()  # fault"),
    Fault("LW101", "step", "if out.sum() > 0:  # fault\n    out = out * 2"),
    Fault("LW101", "step", "assert (out == out).all()  # fault"),
    Fault("LW101", "step", "scale = float(out.mean())  # fault"),
    Fault("LW101", "step", "rows = int(token.sum())  # fault"),
    Fault("LW101", "forward", "if h.max() > 100.0:  # fault\n    h = h / 2"),
    Fault("LW101", "step", "values = out.tolist()  # fault"),
    Fault("LW101", "step", "out = F.leaky_relu(out, out.mean())  # fault"),
    Fault("LW101", "step", "flat = out.reshape(y.max(), -1)  # fault"),
    Fault("LW102", "step", "print(out)  # fault"),
    Fault("LW102", "step", "text = f'{out}'  # fault"),
    Fault("LW102", "step", "text = f'{out.sum():.3f}'  # fault"),
    Fault("LW104", "step", "array = out.detach().cpu().numpy()  # fault"),
    Fault("LW103", "step", "array = out.detach().numpy()  # fault"),
    Fault("LW104", "step", "copy = out.to('cpu')  # fault"),
    Fault("LW104", "step", "copy = out.cpu()  # fault"),
    Fault("LW105", "step", "positive = out[out > 0]  # fault"),
    Fault("LW105", "step", "out = out + torch.nonzero(out).sum()  # fault"),
    Fault("LW105", "step", "chosen = out.masked_select(out > 0)  # fault"),
    Fault("LW106", "step", "out = torch.add(out, out, alpha=out.mean())  # fault"),
    Fault("LW106", "step", "out = out.addcmul(out, out, value=out.mean())  # fault"),
    Fault("LW110", "step", "out = out + torch.ones(3)  # fault"),
    Fault("LW111", "loop", "doubled = loss * 2  # fault"),
    Fault(
        "LW112",
        "setup",
        "",
        (LOOP,),
        extra=(("before", "input_fn = lambda: [(torch.ones(4, 6), torch.arange(4) % 3, torch.ones(1).long())] * 3"),),
    ),
    Fault("LW113", "setup", "", (LOOP, ("    loss = step(batch)", "    loss = None"))),
    Fault("LW114", "setup", "cstorch.backend('CSX')  # fault"),
    Fault("LW114", "setup", "cstorch.utils.data.DataExecutor(input_fn())  # fault"),
    Fault(
        "LW114",
        "setup",
        "",
        (LOOP, ("    return torch.utils.data.DataLoader(Data(), batch_size=4, drop_last=True)", BATCHES)),
    ),
    Fault("LW115", "setup", "area = cstorch.metrics.AUCMetric()  # fault"),
    Fault(
        "LW116",
        "before",
        "cstorch.amp.set_half_dtype('cbfloat16')",
        (
            ("    log(loss)", "    log(out)  # fault"),
            ("    return loss\n\n", "    return out\n\n"),
            ("loss = step(b", "out = step(b"),
        ),
    ),
    Fault(
        "LW117", "step", "extra = second(out)  # fault", extra=(("setup", "second = cstorch.compile(nn.Linear(3, 3))"),)
    ),
    Fault(
        "LW118",
        "setup",
        "",
        (("    log(loss)\n", "    log(loss)\ncstorch.save(model.state_dict(), 'm.mdl')  # fault\n"),),
    ),
    Fault(
        "LW118", "setup", "", (("    log(loss)\n", "    log(loss)\ntorch.save(model.state_dict(), 'm.pt')  # fault\n"),)
    ),
    Fault(
        "LW118", "setup", "", (("    log(loss)\n", "    log(loss)\nwidth = model.fc1.weight.norm().item()  # fault\n"),)
    ),
    Fault(
        "LW114",
        "before",
        "open('m.mdl', 'w').close()",
        tuple(
            (old, new)
            for old, new in (
                *after("cstorch.save(model.state_dict(), 'm.mdl')  # fault"),
                ("num_steps=4", "num_steps=4, checkpoint_steps=2"),
            )
        ),
    ),
    Fault(
        "LW118",
        "setup",
        "",
        (
            *after("print(out.sum().item())  # fault"),
            ("    return loss\n\n", "    return loss, out\n\n"),
            ("loss = step(b", "loss, out = step(b"),
        ),
    ),
    Fault("LW118", "loop", "cstorch.save(model.state_dict(), 'm.mdl')  # fault"),
    Fault(
        "LW118",
        "setup",
        "saved = model.state_dict()",
        after("model.load_state_dict(saved)  # fault"),
    ),
    Fault("LW107", "step", "counts = torch.bincount(y)  # fault"),
    Fault("LW107", "step", "hot = F.one_hot(y, 3)  # fault"),
    Fault("LW108", "step", "mask = (out > 0).triu()  # fault"),
    Fault("LW201", "step", "values = torch.linalg.svdvals(out)  # fault"),
    Fault("LW201", "forward", "h = torch.logaddexp(h, h)  # fault"),
    Fault("LW201", "step", "middle = out.median()  # fault"),
    Fault("LW202", "step", "out = torch.lerp(out, out * 2, 0.5)  # fault"),
    Fault("LW202", "forward", "row = torch.mv(h, h[0] if False else self.fc1.bias)  # fault\nh = h + row.unsqueeze(1)"),
    Fault("LW202", "step", "out = out.clone()\nout[y] = out * 2  # fault"),
    Fault(
        "LW202",
        "setup",
        "one = torch.ones(1)",
        (
            ("for batch in executor:", "for batch in executor:  # fault"),
            ("    log(loss)", "    log(one)"),
            ("scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()", "pass"),
        ),
        also=("LW310",),
    ),
    Fault("LW203", "step", "out = out.to(torch.uint8).float() + out  # fault"),
    Fault("LW203", "step", "out = (out.double() * 2.0).float()  # fault"),
    Fault("LW204", "forward", "h = F.hardsigmoid(h)  # fault"),
    Fault("LW412", "step", "out = torch.rellu(out)  # fault"),
    Fault("LW205", "setup", "cstorch.manual_seed(1)  # fault"),
    Fault("LW301", "forward", "h = self.attend(h, h, h)[0]  # fault", extra=(("layers", ATTENTION),)),
    Fault("LW301", "step", "h = F.scaled_dot_product_attention(out, out, out)  # fault"),
    Fault("LW302", "step", "big = F.cross_entropy(out.repeat(1, 10000), y)  # fault"),
    Fault("LW303", "forward", "h = h + F.layer_norm(self.fc1.weight, (6,)).sum()  # fault"),
    Fault("LW304", "forward", "h = h + self.fc1.weight[:4].sum()  # fault"),
    Fault("LW304", "forward", "left, right = self.fc1.weight.split(4)  # fault"),
    Fault(
        "LW305", "forward", "h = h @ self.fc3.weight.t()  # fault", extra=(("layers", "self.fc3 = nn.Linear(8, 8)"),)
    ),
    Fault("LW306", "forward", "h = h + self.table.weight[token]  # fault"),
    Fault("LW307", "step", "part = out[:, 1:]  # fault"),
    Fault("LW307", "step", "last = out[-1]  # fault"),
    Fault("LW307", "forward", "left, right = h.chunk(2, dim=-1)  # fault"),
    Fault("LW308", "step", "mask = torch.cat([out > 0, out < 1])  # fault"),
    Fault("LW503", "forward", "h = h + self.table(torch.arange(4, device=x.device))  # fault"),
    Fault("LW310", "setup", "", (LOOP, ("    log(loss)\n", "\n"))),
    Fault(
        "LW401", "setup", "", extra=(("before", LATE_STATE), ("setup", "optimizer = Late(model.parameters(), lr=0.1)"))
    ),
    Fault(
        "LW401",
        "step",
        "if not hasattr(model, 'mean'):\n    model.mean = torch.zeros(3, device=x.device)\n"
        "model.mean.add_(out.mean(0))  # fault",
    ),
    Fault(
        "LW402",
        "step",
        "global count\nif count < 1:\n    out = out * 2  # fault\ncount += 1",
        also=("LW403",),
    ),
    Fault(
        "LW402",
        "setup",
        "weights = model.parameters()  # spent in the first step",
        (
            (
                "scaler.scale(loss).backward()",
                "scaler.scale(loss).backward()\n    nn.utils.clip_grad_norm_(weights, 1.0)  # fault",
            ),
        ),
    ),
    Fault("LW403", "step", "history.append(loss_scale)  # fault", extra=(("setup", "history, loss_scale = [], 1.0"),)),
    Fault("LW403", "step", "noise = random.random()  # fault"),
    Fault("LW403", "step", "begun = time.perf_counter()  # fault"),
    Fault("LW403", "step", "global count\ncount += 1  # fault"),
    Fault(
        "LW404",
        "setup",
        "",
        (
            (
                "return torch.utils.data.DataLoader(Data(), batch_size=4, drop_last=True)",
                "return torch.utils.data.DataLoader(Data(), batch_size=5)  # fault",
            ),
        ),
    ),
    Fault(
        "LW405",
        "setup",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        (
            (
                "scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()",
                "loss.backward()\n    optimizer.step()  # fault",
            ),
        ),
    ),
    Fault("LW406", "loop", "optimizer.param_groups[0]['lr'] *= 0.5  # fault"),
    Fault(
        "LW406",
        "loop",
        "for group in optimizer.param_groups:\n    group.update(lr=1 / len(losses))  # fault",
        extra=(("setup", "losses = [0]"), ("loop", "losses.append(loss)")),
    ),
    Fault(
        "LW406",
        "loop",
        "adjust(optimizer)",
        extra=(("setup", "def adjust(o):\n    o.param_groups[0]['lr'] /= 2  # fault"),),
    ),
    Fault(
        "LW406",
        "loop",
        "decay.step()  # fault",
        extra=(("setup", "decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)"),),
    ),
    Fault(
        "LW406",
        "loop",
        "decay.step()  # fault",
        extra=(("setup", "decay = torch.optim.lr_scheduler.StepLR(optimizer, 100)"),),
    ),
    Fault(
        "LW407",
        "setup",
        "@cstorch.step_closure\ndef save(x):\n    if x < 0:\n        torch.save(model.state_dict(), 'm.pt')  # fault",
        extra=(("loop", "save(loss)"),),
    ),
    Fault(
        "LW118",
        "setup",
        "@cstorch.step_closure\ndef save():\n    torch.save(model.state_dict(), 'm.pt')  # fault",
        extra=(("loop", "save()"),),
    ),
    Fault(
        "LW118",
        "setup",
        "@cstorch.step_closure\ndef look():\n    print(model.fc1.weight)  # fault",
        extra=(("loop", "look()"),),
    ),
    Fault(
        "LW114",
        "setup",
        "@cstorch.step_closure\ndef look(x):\n    cstorch.save({'loss': x}, 'missing_folder/m.mdl')  # fault",
        extra=(("loop", "look(loss)"),),
    ),
    Fault(
        "LW409",
        "step",
        "",
        (LOOP, ("    out = comp", "    x = x.float()\n    out = comp")),
        ("LW203",),
        extra=(("before", WIDE),),
    ),
    Fault("LW410", "step", "print('in the step')  # fault"),
    Fault(
        "LW411",
        "setup",
        "@cstorch.checkpoint_closure  # fault\ndef save():\n    cstorch.save(model.state_dict(), 'model.mdl')",
        extra=(("loop", "save()"),),
    ),
    Fault("LW501", "setup", "torch.lobpcg(model)  # fault"),
    Fault("LW501", "before", "import torch.utils.hipifi as hipifi  # fault"),
]
