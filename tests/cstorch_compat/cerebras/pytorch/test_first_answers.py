"""What single calls of the vendor's release answer, found by the walk beside it (tests/scripts/public/walk.py)."""

import pytest

# A call after `backend = cstorch.backend("CPU")`, and what release 2.10.0 printed for it or raised.
ANSWERS = [
    ("cstorch.to_numpy(torch.tensor([1.5, 2.5]).bfloat16()).tolist()", "[16320, 16416]"),
    ("cstorch.from_numpy(cstorch.to_numpy(torch.ones(2).bfloat16())).dtype", "torch.bfloat16"),
    ("cstorch.from_numpy(np.arange(3, dtype=np.int16)).dtype", "torch.int16"),
    ("cstorch.from_numpy(np.arange(6.0)[::-2])", "ValueError"),
    ("cstorch.from_numpy(np.float32(2))", "TypeError"),
    ("cstorch.load(io.BytesIO())", "RuntimeError"),
    ("cstorch.load(None)", "RuntimeError"),
    ("cstorch.compile(None, backend)", "TypeError"),
    ("cstorch.optim.SGD(torch.ones(2), lr=0.1)", "TypeError"),
    ("cstorch.optim.SGD(MLP().named_parameters(), lr=0.1)", "TypeError"),
    ("cstorch.optim.lr_scheduler.ConstantLR(3, 0.1)", "AttributeError"),
    ("cstorch.sparse.map_sparsity_algorithm(None)", "AttributeError"),
    ("cstorch.amp.get_floating_point_dtype_str()", "float32"),
    ("(cstorch.amp.mixed_precision(), cstorch.amp.enable_mixed_precision())", "(False, True)"),
    ("(cstorch.amp.GradScaler(0).get_scale(), cstorch.amp.GradScaler(-1.0).get_scale())", "(1.0, -1.0)"),
    ("MLP().load_state_dict({})", "RuntimeError"),
    ("cstorch.trace(loader).__name__", "loader"),
    ("cstorch.step_closure(abs)(-1)", "None"),
    ("sorted(copy.deepcopy(model).state_dict())[0]", "fc1.bias"),
    ("cstorch.full(shape=(2,), value=1.5).tolist()", "[1.5, 1.5]"),
    ("cstorch.full_like(other=torch.ones(1), value=2.0).tolist()", "[2.0]"),
    ("(cstorch.zeros((1,), torch.int32).dtype, cstorch.ones(shape=2).tolist())", "(torch.int32, [1.0, 1.0])"),
    (
        "(cstorch.zeros_like(other=torch.ones(1)), cstorch.ones_like(other=torch.zeros(1)))",
        "(tensor([0.]), tensor([1.]))",
    ),
    ("cstorch.zeros(2, 3)", "TypeError"),
    ("cstorch.make_constant(tensor=torch.ones(1)).tolist()", "[1.0]"),
    ("cstorch.to_numpy(tensor=torch.ones(1)).tolist()", "[1.0]"),
    ("cstorch.amp.enable_mixed_precision(False) or cstorch.amp.get_floating_point_dtype_str(default='x')", "x"),
    ("cstorch.amp.half_function(lambda x: x.dtype)(torch.ones(2))", "torch.float32"),
    ("cstorch.amp.register_half_function(model, 'nothing')", "ValueError"),
    ("cstorch.compile(MLP(), backend).__name__", "_wrapped_call_impl"),
    ("cstorch.save({'a': 1}, None)", "TypeError"),
    ("cstorch.save({'a': 1}, io.BytesIO())", "TypeError"),
    ("cstorch.compile(lambda x: x, backend)", "AttributeError"),
    ("list(cstorch.utils.data.DistributedSampler(range(8), batch_size=0))", "ValueError"),
    ("cstorch.distributed.get_streaming_rank()", "AssertionError"),
    ("cstorch.distributed.get_streaming_batch_size(None)", "TypeError"),
    ("cstorch.distributed.ClusterConfig(num_csx=None).num_csx", "1"),
    ("cstorch.experimental.Compression(None, '*')", "TypeError"),
    ("cstorch.amp.optimizer_step(torch.ones(()), None, None)", "TypeError"),
    ("float(cstorch.metrics.AccuracyMetric('a'))", "nan"),
    ("float(cstorch.metrics.DiceCoefficientMetric(3, name='b'))", "0.0"),
    ("float(cstorch.metrics.MeanIOUMetric(3, name='c'))", "0.0"),
    ("float(cstorch.metrics.FBetaScoreMetric(3, name='d'))", "0.0"),
    ("float(cstorch.metrics.AUCMetric(8, name='e'))", "0.0"),
    ("cstorch.metrics.AccuracyMetric('f')(labels=torch.ones(3), predictions=torch.ones(4))", "RuntimeError"),
    ("setattr(cstorch.backends.csx, 'performance', 3)", "AttributeError"),
]
# The same of messages, of which the beginning is what was recorded.
MESSAGES = [
    (
        "cstorch.amp.set_half_dtype('x')",
        'Invalid half dtype: x. Accepted values are: "float16", "bfloat16", "cbfloat16"',
    ),
    ("cstorch.save({'a': nn.Parameter(torch.ones(2))}, 'p.mdl')", "Can't call numpy() on Tensor that requires grad."),
    (
        "cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(list), num_steps=0)",
        "Expected num_steps >= 1, but got 0.",
    ),
    ("cstorch.backends.csx.performance.nothing", "'_performance' object has no attribute 'nothing'"),
    ("cstorch.distributed.ClusterConfig(job_labels=['x'])", "'x' is an invalid label. Expecting the label key"),
    ("cstorch.save({}, '.')", "Checkpoint at '.' already exists. Please delete the checkpoint and run again."),
]


def test_single_calls_answer_as_release_2_10_does(script):
    calls = "".join(
        f"""
try:
    print({call})
except Exception as e:
    print(type(e).__name__)
"""
        for call, _ in ANSWERS
    )
    start = "import copy, io\nimport numpy as np\nbackend = cstorch.backend('CPU')\n"
    done = script(start + "model = MLP()\ncstorch.compile(model, backend)\n" + calls)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[: len(ANSWERS)] == [answer for _, answer in ANSWERS]


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_mixed_precision_is_on_where_the_run_is_on_the_wafer(script, half):
    done = script(
        f"""
        cstorch.amp.set_half_dtype("{half}")
        cstorch.backend("CSX")
        print(cstorch.amp.mixed_precision(), cstorch.amp.get_floating_point_dtype_str())
        """
    )
    assert done.stdout.startswith(f"True {half}")


def test_casts_of_a_block_on_a_cpu_are_pytorch_s(script):
    # As release 2.10 does it on its CPU backend: sums and logarithms stay in the half type, losses do not.
    done = script(
        """
        cstorch.backend("CPU")
        cstorch.amp.set_half_dtype("bfloat16")
        x = torch.rand(4, 8)
        with cstorch.amp.autocast():
            h = x @ x.t()
            given = h, h.sum(), F.log_softmax(h, 1), F.layer_norm(x, (8,)), F.nll_loss(h, torch.zeros(4).long())
        print([str(t.dtype) for t in given])
        """
    )
    half, full = "torch.bfloat16", "torch.float32"
    assert done.stdout.strip() == str([half, half, half, full, full]), done.stderr


def test_messages_begin_as_those_of_release_2_10(script):
    calls = "".join(
        f"""
try:
    {call}
except Exception as e:
    print(str(e)[:{len(message)}])
"""
        for call, message in MESSAGES
    )
    done = script("backend = cstorch.backend('CPU')\n" + calls)
    assert done.stdout.splitlines() == [message for _, message in MESSAGES]


def test_single_calls_on_the_wafer_answer_as_release_2_10_does(script):
    done = script(
        """
cstorch.backend("CSX")
scaler = cstorch.amp.GradScaler("dynamic")
scaler.load_state_dict({})
for call in (lambda: float(cstorch.metrics.DiceCoefficientMetric(3, name="m")), lambda: scaler.scale(None)):
    try:
        print(call())
    except Exception as e:
        print(type(e).__name__, str(e)[:60])
"""
    )
    assert done.stdout.splitlines() == [
        "RuntimeError Trying to compute metric `m`, but the metric has not been up",
        "AttributeError 'NoneType' object has no attribute 'float'",
    ]


def test_a_summary_after_close_is_kept(script):
    done = script(
        """
from cerebras.pytorch.utils.tensorboard import SummaryReader, SummaryWriter
writer = SummaryWriter("logs")
writer.add_scalar("a", 1.0, 1)
writer.close()
writer.add_scalar("a", 2.0, 2)
writer.close()
print([e.value for e in SummaryReader("logs").read_scalar("a")])
"""
    )
    assert done.stdout == "[1.0, 2.0]\n"


def test_a_layer_in_half_precision_rounds_the_sum_with_its_bias_once_in_a_step_too(script):
    # 1 + 2^-8 and 2^-8: each lies between two numbers of bfloat16, their sum 1 + 2^-7 is one.
    done = script(
        """
        layer = nn.Linear(2, 1).bfloat16()
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[1.0, 2.0**-8]]))
            layer.bias.fill_(2.0**-8)
        x = torch.ones(1, 2).bfloat16()
        cstorch.compile(layer, cstorch.backend("CPU"))
        step = cstorch.trace(lambda x: layer(x))
        show = cstorch.step_closure(lambda y: print(y.item()))
        loader = cstorch.utils.data.DataLoader(lambda: torch.utils.data.DataLoader([x[0]], batch_size=1))
        print(layer(x).item())
        for batch in cstorch.utils.data.DataExecutor(loader, num_steps=1):
            show(step(batch))
        """
    )
    assert done.stdout.split()[:2] == ["1.0078125", "1.0078125"], done.stdout + done.stderr
