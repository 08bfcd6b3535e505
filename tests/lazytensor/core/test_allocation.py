"""Tensors that no machine holds are refused at their line where PyTorch 2.13 refuses them, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.core import abstract_step, allocation

torch, F = get_mirror("torch"), get_mirror("torch.nn.functional")
N = 2**45
"""Elements, of 128 TiB in float32."""
SIDE = 2**23
"""Of a matrix of 256 TiB."""


def wide():
    """One element that is seen N times, as PyTorch's expand gives it."""
    return torch.ones(1).expand(N)


def square():
    return wide().view(2**20, 2**25)


def column():
    return torch.ones(SIDE, 1)


def row():
    return torch.ones(1, SIDE)


def places():
    return torch.zeros(1, dtype=torch.long).expand(N)


ALLOCATED = {
    "zeros": lambda: torch.zeros(2**20, 2**30),
    "ones": lambda: torch.ones(2**50),
    "empty": lambda: torch.empty(N),
    "full": lambda: torch.full((N,), 1.0),
    "bool": lambda: torch.zeros(2**47, dtype=torch.bool),
    "bfloat16": lambda: torch.zeros(2**46, dtype=torch.bfloat16),
    "rand": lambda: torch.rand(N),
    "randn": lambda: torch.randn(N),
    "randint": lambda: torch.randint(0, 3, (N,)),
    "randperm": lambda: torch.randperm(N),
    "normal": lambda: torch.normal(0.0, 1.0, (N,)),
    "arange": lambda: torch.arange(N),
    "arange of floats": lambda: torch.arange(0.0, float(N)),
    "linspace": lambda: torch.linspace(0, 1, N),
    "logspace": lambda: torch.logspace(0, 1, N),
    "eye": lambda: torch.eye(2**24),
    "zeros_like": lambda: torch.zeros_like(wide()),
    "rand_like": lambda: torch.rand_like(wide()),
    "full_like": lambda: torch.full_like(wide(), 2),
    "new_zeros": lambda: torch.ones(1).new_zeros(N),
    "new_full": lambda: torch.ones(1).new_full((N,), 1),
    "Tensor": lambda: torch.Tensor(N),
    "LongTensor": lambda: torch.LongTensor(N),
    "empty_strided": lambda: torch.empty_strided((N,), (1,)),
    "hann_window": lambda: torch.hann_window(N),
    "tril_indices": lambda: torch.tril_indices(2**24, 2**24),
    "matmul": lambda: column() @ row(),
    "add": lambda: column() + row(),
    "eq": lambda: torch.ones(2**24, 1) == torch.ones(1, 2**24),
    "where": lambda: torch.where(column() > 0, row(), 0.0),
    "outer": lambda: torch.outer(column()[:, 0], row()[0]),
    "einsum": lambda: torch.einsum("i,j->ij", column()[:, 0], row()[0]),
    "bmm": lambda: torch.bmm(column()[None], row()[None]),
    "cdist": lambda: torch.cdist(column(), column()),
    "kron": lambda: torch.kron(torch.ones(2**22), torch.ones(2**22)),
    "combinations": lambda: torch.combinations(torch.ones(SIDE)),
    "cartesian_prod": lambda: torch.cartesian_prod(torch.ones(2**22), torch.ones(2**22)),
    "linear": lambda: F.linear(column(), torch.ones(SIDE, 1)),
    "repeat": lambda: torch.ones(2**10).repeat(2**35),
    "tile": lambda: torch.tile(torch.ones(2**10), (2**35,)),
    "repeat_interleave": lambda: torch.ones(1).repeat_interleave(N),
    "add to a view": lambda: wide() + 1,
    "relu of a view": lambda: F.relu(wide()),
    "clone": lambda: wide().clone(),
    "contiguous": lambda: wide().contiguous(),
    "double": lambda: wide().double(),
    "cat": lambda: torch.cat([wide()] * 2),
    "stack": lambda: torch.stack([wide(), wide()]),
    "flip": lambda: wide().flip(0),
    "tril": lambda: torch.ones(1, 1).expand(SIDE, SIDE).tril(),
    "softmax": lambda: wide().softmax(0),
    "cumsum": lambda: wide().cumsum(0),
    "index": lambda: torch.ones(3)[places()],
    "index_select": lambda: torch.ones(3).index_select(0, places()),
    "gather": lambda: torch.ones(3).gather(0, places()),
    "embedding": lambda: F.embedding(places(), torch.ones(2, 32)),
    "one_hot": lambda: F.one_hot(torch.arange(2**20), 2**25),
    "dropout": lambda: F.dropout(wide(), 0.5),
    "pad": lambda: F.pad(torch.ones(3), (0, N)),
    "interpolate": lambda: F.interpolate(torch.ones(1, 1, 2), size=N),
    "interpolate by a factor": lambda: F.interpolate(torch.ones(1, 1, 2, 2), scale_factor=SIDE),
    "diag": lambda: torch.diag(torch.ones(SIDE)),
    "diag_embed": lambda: torch.diag_embed(torch.ones(SIDE)),
    "block_diag": lambda: torch.block_diag(column(), row()),
    "adaptive_avg_pool1d": lambda: F.adaptive_avg_pool1d(torch.ones(1, 1, 2), N),
    "resize_": lambda: torch.ones(1).resize_(N),
    "bincount": lambda: torch.bincount(torch.tensor([N])),
    "multinomial": lambda: torch.multinomial(torch.ones(2), N, replacement=True),
    "Linear": lambda: torch.nn.Linear(SIDE, SIDE),
    "Embedding": lambda: torch.nn.Embedding(2**40, 2**10),
    "LSTM": lambda: torch.nn.LSTM(2**22, 2**22),
    "Conv2d": lambda: torch.nn.Conv2d(2**22, 2**22, 3),
    "LayerNorm": lambda: torch.nn.LayerNorm(N),
    "Parameter": lambda: torch.nn.Parameter(torch.empty(N)),
}
ACCEPTED = {
    "expand": wide,
    "view": square,
    "transpose": lambda: square().T,
    "permute": lambda: square().permute(1, 0),
    "slice": lambda: wide()[1:],
    "unsqueeze": lambda: wide()[None],
    "squeeze": lambda: wide()[None].squeeze(0),
    "select": lambda: square()[0],
    "narrow": lambda: wide().narrow(0, 0, 2**44),
    "split": lambda: wide().split(2**44)[0],
    "chunk": lambda: wide().chunk(2)[0],
    "flatten": lambda: square().flatten(),
    "reshape": lambda: wide().reshape(2**20, 2**25),
    "detach": lambda: wide().detach(),
    "broadcast_to": lambda: torch.broadcast_to(torch.ones(1), (N,)),
    "broadcast_tensors": lambda: torch.broadcast_tensors(column(), row())[0],
    "expand_as": lambda: torch.ones(1).expand_as(wide()),
    "as_strided": lambda: torch.ones(1).as_strided((N,), (0,)),
    "unfold": lambda: torch.ones(2**24).unfold(0, SIDE, 1),
    "diagonal": lambda: torch.ones(1, 1).expand(2**30, 2**30).diagonal(),
    "meshgrid": lambda: torch.meshgrid(torch.ones(SIDE), torch.ones(SIDE), indexing="ij")[0],
    "to the same type": lambda: wide().to(torch.float32),
    "no elements": lambda: torch.zeros(0, 2**62),
    "zeros on meta": lambda: torch.zeros(N, device="meta"),
    "rand on meta": lambda: torch.rand(N, device="meta"),
    "randint on meta": lambda: torch.randint(0, 2, (N,), device="meta"),
    "randperm on meta": lambda: torch.randperm(N, device="meta"),
    "arange on meta": lambda: torch.arange(N, device="meta"),
    "linspace on meta": lambda: torch.linspace(0, 1, N, device="meta"),
    "eye on meta": lambda: torch.eye(2**24, device="meta"),
    "add on meta": lambda: torch.zeros(N, device="meta") + 1,
    "matmul on meta": lambda: torch.zeros(SIDE, 1, device="meta") @ torch.zeros(1, SIDE, device="meta"),
    "zeros_like on meta": lambda: torch.zeros_like(torch.zeros(N, device="meta")),
    "Linear on meta": lambda: torch.nn.Linear(SIDE, SIDE, device="meta"),
}
OVERFLOWS = {
    "zeros": lambda: torch.zeros(2**62),
    "product of extents": lambda: torch.zeros(2**40, 2**40),
    "zeros on meta": lambda: torch.zeros(2**62, device="meta"),
}


def is_out_of_memory(e: BaseException) -> bool:
    """What Accelerate's find_executable_batch_size and Lightning's batch size finder look for on a CPU."""
    return (
        isinstance(e, RuntimeError) and len(e.args) == 1 and "DefaultCPUAllocator: can't allocate memory" in e.args[0]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ALLOCATED)
def test_tensor_that_no_machine_holds_is_refused_at_its_line(name):
    with pytest.raises(RuntimeError) as caught:
        ALLOCATED[name]()
    assert is_out_of_memory(caught.value) and "test_allocation.py:" in str(caught.value)


@pytest.mark.parametrize("name", ACCEPTED)
def test_tensor_without_memory_of_its_own_has_any_size(name):
    ACCEPTED[name]()


@pytest.mark.parametrize("name", OVERFLOWS)
def test_size_of_more_than_63_bits_is_told_in_pytorchs_words(name):
    with pytest.raises(RuntimeError, match=r"^Storage size calculation overflowed with sizes="):
        OVERFLOWS[name]()


def test_draws_on_meta_leave_the_generator_as_it_is():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.rand(3, device="meta"), torch.randn(3, device="meta"), torch.randperm(3, device="meta")
    assert torch.equal(torch.rand(3), expected)


def test_search_for_a_batch_that_fits_ends(monkeypatch):
    monkeypatch.setattr(allocation, "MAX_BYTES", 2**24)
    model, size = torch.nn.Linear(64, 256), 1
    for _ in range(40):
        try:
            model(torch.zeros(size, 64)).sum().backward()
        except RuntimeError as e:
            assert is_out_of_memory(e)
            break
        size *= 2
    # Activations of 256 float32 for each sample.
    assert size == 2**15


@given(
    st.integers(1, 2**12),
    st.integers(1, 2**12),
    st.sampled_from([torch.float32, torch.float64, torch.bool, torch.int16]),
)
def test_result_is_refused_from_its_bytes_on(rows, columns, dtype):
    limit = 2**22
    a, b = torch.zeros(rows, 1, dtype=dtype), torch.zeros(1, columns, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocation, "MAX_BYTES", limit)
        try:
            torch.maximum(a, b)
        except MemoryError as e:
            assert is_out_of_memory(e) and rows * columns * dtype.itemsize > limit
        else:
            assert rows * columns * dtype.itemsize <= limit


def test_model_of_a_plan_may_be_larger_than_the_machine(monkeypatch):
    monkeypatch.setattr(allocation, "MAX_BYTES", 2**20)
    with abstract_step.mode():
        assert torch.nn.Linear(2**12, 2**12).weight.numel() == 2**24
