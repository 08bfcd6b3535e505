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
