"""Sparse tensors and members of Tensor that are compositions: values recorded from PyTorch 2.13.0."""

import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch = get_mirror("torch")
PLACES = [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_products_and_their_gradients():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    dense = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    sparse = torch.sparse_coo_tensor(torch.tensor(PLACES), values, (3, 3))
    out = torch.spmm(sparse, dense)
    out.pow(2).sum().backward()
    assert out.tolist() == [[3.0, 4.0], [17.0, 22.0], [12.0, 16.0]]
    assert values.grad.tolist() == [50.0, 122.0, 434.0, 200.0]
    assert dense.grad.tolist() == [[68.0, 88.0], [102.0, 136.0], [102.0, 132.0]]
    for form in (torch.sparse.mm, torch.mm, torch.matmul, torch.spmm):
        assert form(sparse, dense).tolist() == (sparse @ dense).tolist() == out.tolist()


def test_places_that_stand_twice_are_added_up():
    twice = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], (2, 2))
    with pytest.raises(RuntimeError, match="uncoalesced"):
        twice.indices()
    once = twice.coalesce()
    assert (once.indices().tolist(), once.values().tolist()) == ([[0, 1], [1, 0]], [3.0, 3.0])
    assert twice.to_dense().tolist() == [[0.0, 3.0], [3.0, 0.0]] == twice.t().to_dense().tolist()


def test_sparse_and_dense_meet_as_in_graph_networks():
    edges = torch.sparse_coo_tensor(PLACES, torch.ones(4), (3, 3), dtype=torch.int64)
    adjacency = torch.eye(3) + edges
    degrees = torch.sqrt(1 / torch.sum(adjacency, dim=1))
    scale = torch.diag(degrees).to_sparse()
    normal = scale @ adjacency @ scale
    assert scale.is_sparse and not normal.is_sparse and isinstance(scale, torch.Tensor)
    assert [round(v, 5) for v in normal[1].tolist()] == [0.40825, 0.33333, 0.40825]


def test_places_outside_are_refused():
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor([[0], [5]], [1.0], (2, 2))


def test_forms_in_place_change_how_a_tensor_is_seen():
    x = torch.arange(6.0).reshape(2, 3)
    assert (tuple(x.t_().shape), tuple(x.unsqueeze_(0).shape)) == ((3, 2), (1, 3, 2))
    assert x.resize_(2, 2).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert torch.eye(2).fill_diagonal_(5).tolist() == [[5.0, 0.0], [0.0, 5.0]]
    assert torch.relu_(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    assert x.apply_(lambda v: v + 1).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_tensor_is_on_the_cpu_and_nowhere_else():
    x = torch.ones(2)
    assert x.is_cpu and x.get_device() == -1 and not (x.is_xpu or x.is_mps or x.is_cuda)
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        x.cuda()
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        storage = x.storage()
    assert (len(storage), x.untyped_storage().nbytes(), x.share_memory_().is_shared()) == (2, 8, True)


def test_modules_without_values_draw_nothing():
    nn = get_mirror("torch.nn")
    torch.manual_seed(0)
    first = torch.rand(1).item()
    torch.manual_seed(0)
    layer = nn.utils.skip_init(nn.Linear, 2, 3)
    assert tuple(layer.weight.shape) == (3, 2) and torch.rand(1).item() == first
    with torch.device("meta"):
        hollow = nn.Linear(2, 2)
    assert (hollow.weight.device.type, hollow.to_empty(device="cpu").weight.device.type) == ("meta", "cpu")
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        layer.cuda()
    chain = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    chain.set_submodule("1", nn.Tanh())
    assert type(chain[1]) is nn.Tanh and chain.share_memory()[0].weight.is_shared()


def test_softmax_of_rows_of_very_different_size():
    values = torch.tensor([100.0, 100.5, -200.0, -201.0])
    matrix = torch.sparse_coo_tensor([[0, 0, 1, 1], [0, 1, 0, 1]], values, (2, 2))
    rows, columns = (torch.sparse.softmax(matrix, dim).to_dense() for dim in (1, 0))
    assert rows.flatten().tolist() == pytest.approx([0.3775407, 0.6224593, 0.7310586, 0.2689414])
    assert columns.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_legacy_constructors_make_sparse_tensors_of_their_type():
    sparse = get_mirror("torch.sparse")
    places, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])
    matrix = sparse.FloatTensor(places, values, torch.Size([2, 3]))
    assert matrix.to_dense().tolist() == [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    assert isinstance(matrix, sparse.FloatTensor) and not isinstance(matrix, torch.FloatTensor)
    assert not isinstance(torch.ones(2), sparse.FloatTensor) and not isinstance(matrix, sparse.DoubleTensor)
    assert (matrix.type(), matrix._values().tolist(), matrix._indices().tolist()) == (
        "torch.sparse.FloatTensor",
        values.tolist(),
        places.tolist(),
    )
    assert sparse.DoubleTensor(2, 3).shape == torch.sparse_coo_tensor((2, 3)).shape == (2, 3)
    assert sparse.FloatTensor().shape == (0,) and torch.sparse_coo_tensor(size=(2, 3))._nnz() == 0


def test_elementwise_functions_keep_the_indices():
    twice = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], torch.tensor([1.0, 3.0, 9.0], requires_grad=True), (2, 2))
    dense = twice.to_dense()
    for form, expected in (
        (twice.sqrt(), dense.sqrt()),
        (twice.pow(2), dense**2),
        (twice * torch.full((2, 2), 2.0), dense * 2),
        (twice * twice, dense * dense),
        (twice - twice.sqrt(), dense - dense.sqrt()),
        (twice.add(twice, alpha=2), dense * 3),
        (twice.mul(2).div(4), dense / 2),
    ):
        assert form.is_sparse and form.to_dense().tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match="positive exponent"):
        twice.pow(0)


def test_diagonals_of_a_sparse_matrix_are_those_of_pytorch():
    sparse = get_mirror("torch.sparse")
    made = sparse.spdiags(torch.arange(9).reshape(3, 3), torch.tensor([0, -1, 2]), (4, 4))
    assert made.to_dense().tolist() == [[0, 0, 8, 0], [3, 1, 0, 0], [0, 4, 2, 0], [0, 0, 5, 0]]
    shares = sparse.log_softmax(torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)), 1)
    assert [round(v, 4) for v in shares.values().tolist()] == [0.0, -1.3133, -0.3133]
