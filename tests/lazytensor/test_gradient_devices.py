"""Where the gradients are that a script is given: on the device of the value that they belong to."""

import lazytensor as lt
from lazytensor import nn
from lazytensor.gradients import Function, grad


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
