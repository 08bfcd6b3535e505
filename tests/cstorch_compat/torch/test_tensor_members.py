"""What only PyTorch's scripts ask of tensors, modules and storages. Answers are recorded from PyTorch 2.13.0."""

import ctypes

import numpy as np
import pytest

FACTS = """is_cpu=True is_mps=False is_xpu=False is_nested=False is_sparse_csr=False output_nr=0 name=None
    grad_dtype=torch.float32 get_device()=-1 is_shared()=False is_inference()=False dim_order()=(0,1)"""
CALLS = [
    ("torch.range(0, 3)", [0.0, 1.0, 2.0, 3.0]),
    ("drawn(lambda: torch.normal(2.0, torch.arange(1.0, 3)))", [3.5410, 1.4131]),
    ("drawn(lambda: torch.normal(0.0, 1.0, (2,)))", [1.5410, -0.2934]),
    ("drawn(lambda: torch.randint_like(torch.zeros(4), 3, 10))", [7.0, 6.0, 3.0, 5.0]),
    ("torch.hann_window(5, periodic=False)", [0.0, 0.5, 1.0, 0.5, 0.0]),
    ("torch.hamming_window(4)", [0.08, 0.54, 1.0, 0.54]),
    ("torch.blackman_window(4)", [0.0, 0.34, 1.0, 0.34]),
    ("torch.bartlett_window(4)", [0.0, 0.5, 1.0, 0.5]),
    ("torch.kaiser_window(4)", [5.2773e-05, 0.21567, 1.0, 0.21567]),
    ("torch.vander(torch.arange(3))", [[0, 0, 1], [1, 1, 1], [4, 2, 1]]),
    ("torch.pdist(torch.eye(3))", [1.4142, 1.4142, 1.4142]),
    ("torch.arange(6.0).resize_(3, 2)", [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]),
    ("torch.zeros(2, 3).fill_diagonal_(5)", [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]),
    ("torch.zeros(4, 2).fill_diagonal_(5, wrap=True)", [[5.0, 0.0], [0.0, 5.0], [0.0, 0.0], [5.0, 0.0]]),
    ("torch.ones(2).apply_(lambda x: x + 1)", [2.0, 2.0]),
    ("torch.ones(2).map_(torch.ones(2), lambda a, b: a + b)", [2.0, 2.0]),
    ("torch.frombuffer(bytearray(b'abcd'), dtype=torch.uint8, count=2, offset=1)", [98, 99]),
    ("torch.asarray([1, 2.0])", [1.0, 2.0]),
    ("torch.ones(1).new([1, 2])", [1.0, 2.0]),
    ("torch.ones(2, 1).squeeze_(1)", [1.0, 1.0]),
    ("torch.ones(2).to(None)", [1.0, 1.0]),
    ("torch.ones(2).to(None, torch.int64)", [1, 1]),
]


@pytest.fixture
def torch_module():
    import cstorch_compat  # noqa: PLC0415 - the shim is of this test alone

    cstorch_compat.install()
    import torch  # noqa: PLC0415

    yield torch
    cstorch_compat.uninstall()


def test_a_tensor_of_the_cpu_answers_for_itself(script):
    lines = [f"print({f.partition('=')[0]!r}, torch.ones(2, 3).{f.partition('=')[0]})" for f in FACTS.split()]
    done = script("\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(", ", ",").splitlines() == [f.replace("=", " ") for f in FACTS.split()]


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize(("call", "value"), CALLS)
def test_a_function_gives_pytorchs_numbers(torch_module, call, value):
    def drawn(function):
        torch_module.manual_seed(0)
        return function()

    result = eval(call, {"torch": torch_module, "drawn": drawn})
    np.testing.assert_allclose(result.numpy(), np.array(value), atol=1e-4)


def test_a_storage_lies_where_it_says(torch_module):
    torch = torch_module
    x = torch.arange(6, dtype=torch.bfloat16)
    where = ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_uint16))
    assert where[2] == 0x4000 and x[2:].data_ptr() == x.data_ptr() + 4
    storage = x.view(2, 3).untyped_storage()
    assert (storage.nbytes(), storage.data_ptr()) == (12, x.data_ptr())
    assert torch.frombuffer(bytes(storage.tolist()), dtype=torch.bfloat16).tolist() == x.tolist()
    assert torch.zeros(3).data_ptr() != torch.zeros(3).data_ptr()


def test_tensor_from_a_buffer_shares_its_memory(torch_module):
    torch, buffer = torch_module, bytearray(b"abcd")
    part, whole = torch.frombuffer(buffer, dtype=torch.uint8, offset=2), torch.asarray(buffer, dtype=torch.uint8)
    buffer[3] = 1
    assert part.tolist() == [99, 1] and whole.tolist() == [97, 98, 99, 1]


def test_the_old_kind_of_storage_warns(torch_module):
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        assert torch_module.ones(2).storage().tolist() == [1.0, 1.0]


def test_an_older_name_warns_and_does_the_same(torch_module):
    with pytest.warns(FutureWarning, match=r"`nn.init.constant` is now deprecated in favor of `nn.init.constant_`"):
        assert torch_module.nn.init.constant(torch_module.empty(2), 3.0).tolist() == [3.0, 3.0]


def test_modules_move_as_in_a_build_for_cpus(torch_module):
    nn = torch_module.nn
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        nn.Linear(1, 1).cuda()
    assert isinstance(nn.ReLU().cuda(), nn.ReLU)
    assert nn.Linear(1, 1).type(torch_module.float64).weight.dtype is torch_module.float64
    chain = nn.Sequential(nn.ReLU())
    chain.set_submodule("0", nn.Tanh())
    assert isinstance(chain[0], nn.Tanh)


def test_scores_of_attention_are_changed_by_a_function(torch_module):
    torch = torch_module
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: PLC0415

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4, 16) for _ in range(3))
    out = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1 * (h + 1))
    assert out[0, :, :2, 0].flatten().tolist() == pytest.approx([-0.108661, 0.026249, 0.384497, 0.451558], abs=1e-5)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 4, 4)
    out = flex_attention(q, k, v, block_mask=mask)
    assert out[0, :, :2, 0].flatten().tolist() == pytest.approx([-0.039373, -0.186834, -0.129230, 0.417363], abs=1e-5)
    assert mask.shape == (1, 1, 4, 4)


def test_a_diagonal_that_is_filled_has_no_gradient_and_the_rest_keeps_its_own(torch_module):
    x = torch_module.ones(2, 2, requires_grad=True)
    (x * 2).fill_diagonal_(-9.0).sum().backward()
    assert x.grad.tolist() == [[0, 2], [2, 0]]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        x.fill_diagonal_(0.0)
