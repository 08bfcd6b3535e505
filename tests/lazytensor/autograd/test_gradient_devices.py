"""Where gradients and copies are that a script is given: on the device of the value that they belong to."""

import lazytensor as lt
from lazytensor import nn
from lazytensor.autograd.function import Function, grad


class TurnedByOther(Function):
    """Two products with a tensor of the same device, as the rotary embeddings of scripts are made."""

    @staticmethod
    def forward(ctx, x, turn):
        ctx.save_for_backward(turn)
        return x * turn, x + turn

    @staticmethod
    def backward(ctx, *gradients):
        (turn,) = ctx.saved_tensors
        assert [g.device for g in gradients] == [turn.device] * 2
        return gradients[0] * turn + gradients[1], None


def test_what_scripts_see_of_a_gradient_is_on_the_device_of_its_value():
    wafer, seen = lt.Device("lazy:0"), []
    x, turn, layer = lt.ones(3).requires_grad_(), lt.tensor([1.0, 2.0, 3.0]), nn.Linear(3, 2)
    for tensor in (x, turn, *layer.parameters()):
        tensor.device = wafer
    layer.register_full_backward_pre_hook(lambda module, outs: seen.extend(outs))
    layer.register_full_backward_hook(lambda module, ins, outs: seen.extend((*ins, *outs)))
    for _ in range(2):
        first, second = TurnedByOther.apply(x, turn)
        first.register_hook(seen.append)
        layer(first + second).sum().backward()
    assert len(seen) == 8
    unused, used = lt.ones(2).requires_grad_(), lt.ones(2).requires_grad_()
    unused.device = used.device = wafer
    seen += grad((used * 2).sum(), (used, unused), allow_unused=True, materialize_grads=True)
    # The second gradient of a leaf is added to the first.
    assert {t.device for t in (*seen, x.grad, *(p.grad for p in layer.parameters()))} == {wafer}


def test_a_copy_of_a_tensor_is_where_it_is_unless_a_device_is_named():
    x = lt.tensor([1.5, 2.5])
    x.device = lt.Device("lazy:0")
    copied = lt.tensor(x, dtype=lt.int64)
    assert (copied.device, copied.tolist()) == (x.device, [1, 2])
    assert lt.as_tensor(x, dtype=lt.float64).device == x.device
    assert lt.tensor(x, device="cpu").device == lt.tensor([x[0], x[1]]).device == lt.Device("cpu")
    # A value of its own, without history.
    leaf = lt.tensor(x, requires_grad=True)
    x += 1
    assert leaf.tolist() == [1.5, 2.5] and leaf.is_leaf and leaf.requires_grad
    with lt.Device("meta"):
        assert lt.tensor(x).device == lt.Device("meta")
