"""What the original was seen to refuse or to lower, the check says too."""

import pytest

FRAME = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch

def loader(n=3, bs=4):
    return cstorch.utils.data.DataLoader(
        lambda: [(torch.full((bs, 3), float(i)), torch.arange(bs) % 2) for i in range(n)]
    )

class Lin(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
    def forward(self, x):
        return self.fc(x)

backend = cstorch.backend("{backend}")
m = Lin()
cm = {model}

@cstorch.trace
def f(b):
    {body}

@cstorch.step_closure
def sink(o):
    pass

for b in cstorch.utils.data.DataExecutor({loader}):
    {loop}
"""
SINK = "sink(f(b))"


def framed(body="return cm(b[0])", loop=SINK, model="cstorch.compile(m, backend)", loader="loader(1)", backend="CSX"):
    text = FRAME
    for name, value in {"body": body, "loop": loop, "model": model, "loader": loader, "backend": backend}.items():
        text = text.replace("{" + name + "}", value)
    return text


def inputs(*tensors: str) -> str:
    return f"cstorch.utils.data.DataLoader(lambda: [({', '.join(tensors)},)] * 2)"


A = "torch.linspace(-1, 1, 24).reshape(4, 6)"
REFUSED = {
    "csx_print_tensor_in_trace": framed("print(repr(cm(b[0]).sum())); return cm(b[0]).sum()"),
    "csx_if_on_tensor": framed("if cm(b[0]).sum() > 0: return 1"),
    "csx_no_trace": framed(loop="cm(b[0])"),
    "csx_no_compile": framed("return m(b[0])", model="m"),
    "csx_batch_device": framed(loop="f(b)"),
    "csx_scalar_batch": framed(loader=inputs("torch.ones(2, 3)", "torch.tensor(1.0)")),
    "csx_mixed_batch_sizes": framed(loader=inputs("torch.ones(2, 3)", "torch.ones(3)")),
    "csx_unsupported_op": framed("return torch.linalg.svdvals(cm(b[0]))"),
    "bin_lerp": framed("return torch.lerp(b[0], b[1], 0.3)", loader=inputs(A, A)),
    "bin_smooth_l1": framed("return F.smooth_l1_loss(b[0], b[1])", loader=inputs(A, A)),
    "f64_in": framed("return b[0] * b[0]", loader=inputs(A + ".double()")),
    "matvec": framed("return b[0] @ b[1]", loader=inputs("torch.ones(6, 6)", "torch.ones(6)")),
    "metric_auc": framed(
        "return cstorch.metrics.AUCMetric()(labels=b[1] > 0, predictions=torch.sigmoid(cm(b[0])[:, 0]))"
    ),
    "metric_precision": framed("return cstorch.metrics.PrecisionAtKMetric(1)(labels=b[1], predictions=cm(b[0]))"),
    "nn_linear_cbf16": framed(backend='CSX"); cstorch.amp.set_half_dtype("cbfloat16'),
    "nn_lstm_cell": framed("return cell(b[0])[0]", model="cstorch.compile(m, backend); cell = nn.LSTMCell(3, 3)"),
    "nn_upsample": framed("return nn.Upsample(scale_factor=2)(b[0][:, None])"),
}


@pytest.mark.process
@pytest.mark.parametrize("name", REFUSED)
def test_what_the_original_refuses_is_refused(checked, name):
    answer = checked(REFUSED[name])
    assert (answer["exit"], answer["crash"]) == (1, None)
    assert answer["counts"]["refused"] >= 1


LOWERED = {
    "linear": framed(),
    "relu of int64 labels": framed("return F.cross_entropy(cm(b[0]), b[1])"),
    "dropout": framed("return F.dropout(cm(b[0]), 0.5)"),
    "batch norm": framed("return cm(b[0])", model="cstorch.compile(nn.Sequential(m, nn.BatchNorm1d(2)), backend)"),
    "where": framed("return torch.where(b[0] > 0, b[0], 0.0)"),
    "masked_fill": framed("return b[0].masked_fill(b[0] > 0, 0.0)"),
    "topk": framed("return cm(b[0]).topk(1)[0]"),
    "cumsum": framed("return cm(b[0]).cumsum(1)"),
    "einsum": framed("return torch.einsum('ij,kj->ik', b[0], b[0])"),
    "on the CPU backend": framed(backend="CPU"),
}


@pytest.mark.process
@pytest.mark.parametrize("name", LOWERED)
def test_what_the_original_lowers_is_not_refused(checked, name):
    answer = checked(LOWERED[name])
    assert [f for f in answer["findings"] if f["severity"] == "refused"] == []
    assert answer["exit"] == 0
