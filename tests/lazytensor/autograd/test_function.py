"""Gradients by name, hooks, functions with their own backward, and the hooks of modules."""

import collections
import copy
import functools
import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.autograd.function import Function, backward, grad, once_differentiable
from lazytensor.errors import AutogradError
from lazytensor.functional import attach_members
from lazytensor.nn import functional as F
from tests.lazytensor.live_nodes import live_nodes
from tests.lazytensor.tensor_programs import follow, smooth_programs


def leaf(*values: float) -> lt.Tensor:
    return lt.tensor(values, requires_grad=True)


@settings(max_examples=40, deadline=None)
@given(smooth_programs(), st.integers(0, 2**32 - 1))
def test_grad_gives_what_backward_adds(program, seed):
    rng = np.random.default_rng(seed)
    xs = [lt.tensor(rng.uniform(-1, 1, s), requires_grad=True) for s in ((2, 3), (3,), (2, 3))]
    found = grad(follow(program, xs), xs, allow_unused=True)
    assert all(x.grad is None for x in xs)
    follow(program, xs).backward()
    for x, g in zip(xs, found, strict=True):
        assert (g is None) == (x.grad is None)
        if g is not None:
            assert g.tolist() == x.grad.tolist()


def test_grad_of_something_in_between_and_second_order():
    x = leaf(2.0, 3.0)
    y = x * x
    z = (y * y).sum()
    (dy,) = grad(z, y, retain_graph=True)
    assert dy.tolist() == [8.0, 18.0]
    (dx,) = grad(z, x, create_graph=True)
    assert dx.tolist() == [32.0, 108.0]
    (ddx,) = grad(dx.sum(), [x])
    assert ddx.tolist() == [48.0, 108.0] and not ddx.requires_grad


def test_grad_weights_outputs():
    x = leaf(1.0, 2.0)
    (g,) = grad([x * 2, x * x], x, grad_outputs=[lt.tensor([1.0, 10.0]), lt.ones(2)])
    assert g.tolist() == [4.0, 24.0]


def test_unused_inputs():
    x, other = leaf(1.0), leaf(1.0)
    with pytest.raises(AutogradError, match="appears to not have been used"):
        grad((x * x).sum(), [x, other])
    assert grad((x * x).sum(), [x, other], allow_unused=True)[1] is None
    assert grad((x * x).sum(), [other], materialize_grads=True)[0].tolist() == [0.0]
    with pytest.raises(AutogradError, match="does not require grad"):
        grad((x * x).sum(), lt.ones(1))


def test_backward_adds_only_to_the_inputs_given():
    x, y = leaf(2.0), leaf(3.0)
    (x * y).sum().backward(inputs=[y])
    assert x.grad is None and y.grad.tolist() == [2.0]
    backward([(x * y).sum(), (x * x).sum()])
    assert x.grad.tolist() == [7.0] and y.grad.tolist() == [4.0]


def test_second_walk_is_refused_as_in_pytorch():
    """What PyTorch 2.13 answers: an error where values were saved, none where only shapes were."""
    x = leaf(1.0, 2.0)
    for build, is_refused in ((lambda: (x * x).sum(), True), (lambda: x.relu().sum(), True), (lambda: x.sum(), False)):
        y = build()
        y.backward()
        if is_refused:
            with pytest.raises(AutogradError, match="Trying to backward through the graph a second time"):
                y.backward()
        else:
            y.backward()
        y = build()
        y.backward(retain_graph=True)
        y.backward()
    first = (x * x).sum()
    first.backward()
    (x * x).sum().backward()  # equal, but another tensor


@pytest.mark.parametrize(
    ("function", "is_refused"),
    [
        (lambda x, y: y * y, True),
        (lambda x, y: y[:1] * y[1:], True),
        (lambda x, y: y.log(), True),
        (lambda x, y: y + 1, False),
        (lambda x, y: y.sigmoid(), False),
        (lambda x, y: y.clone() * y.clone(), False),
        (lambda x, y: y.detach() * x, True),
    ],
)
def test_backward_is_refused_where_a_value_that_it_needs_was_written_over(function, is_refused):
    x = leaf(2.0, 3.0)
    y = x * 1
    z = function(x, y).sum()
    y.add_(5)
    if is_refused:
        with pytest.raises(AutogradError, match=r"modified by an inplace operation: .* is at version 1; expected"):
            z.backward()
    else:
        z.backward()


def test_a_result_written_over_is_refused_where_the_gradient_is_made_of_it():
    x = leaf(2.0)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(AutogradError, match="output 0 of Exp, is at version 1; expected version 0 instead"):
        y.sum().backward()
    y = x * 3
    y.mul_(x).relu_()
    y.sum().backward(retain_graph=True)  # what writes in place keeps what it needs
    y.mul_(2)
    with pytest.raises(AutogradError, match="output 0 of Relu, is at version 3; expected version 2 instead"):
        y.sum().backward()


def _of_one_tensor():
    """Functions of one tensor that write in place too: those of the registry, and activations that are told to."""
    for function, mark in attach_members.marked_functions():
        parameters = [*inspect.signature(function).parameters.values()]
        if mark.in_place and all(p.default is not p.empty for p in parameters[1:]):
            yield from ((name, function, lambda x, name=name: getattr(x, f"{name}_")()) for name in mark.names)
    for name in dir(F):
        function = getattr(F, name)
        if "inplace" not in (inspect.signature(function).parameters if inspect.isfunction(function) else ()):
            continue
        if "drop" not in name and name not in ("rrelu", "threshold"):
            yield f"F.{name}", function, functools.partial(function, inplace=True)


ONE_TENSOR = {name: ways for name, *ways in _of_one_tensor()}


@pytest.mark.parametrize("part", [lambda y: y, lambda y: y[1:, ::2]], ids=["whole", "view"])
@pytest.mark.parametrize("name", ONE_TENSOR)
def test_gradients_through_what_writes_in_place_are_those_of_what_does_not(name, part):
    """Of both orders: an operation keeps what it writes over, of however many nodes it is made."""
    function, in_place = ONE_TENSOR[name]
    start = np.linspace(0.1, 0.9, 16, dtype=np.float32).reshape(4, 4)
    found = []
    for writes in (False, True):
        x = lt.tensor(start, requires_grad=True)
        y = x * 1
        try:
            if writes:
                in_place(part(y))
                z = part(y)
            else:
                z = function(part(y))
        except (RuntimeError, TypeError) as error:
            found.append(type(error).__name__)
            continue
        if not z.requires_grad or z.shape != part(y).shape:
            found.append("no gradient")
            continue
        weights = lt.arange(z.numel()).reshape(z.shape) + 1.0
        (first,) = grad((z * weights).sum(), x, create_graph=True)
        second = grad((first * first).sum(), x, materialize_grads=True)[0] if first.requires_grad else first
        found.append([first.tolist(), second.tolist()])
    # What integers alone have fails both ways, and what changes the shape is not written.
    if "no gradient" not in found:
        np.testing.assert_equal(*found)


def test_most_functions_of_one_tensor_have_gradients_to_compare():
    assert {"F.mish", "F.hardswish", "F.silu", "F.elu", "sinc", "sqrt", "exp", "lgamma"} <= set(ONE_TENSOR)
    assert len(ONE_TENSOR) > 60


def test_a_gradient_keeps_nothing_that_is_written_over_behind_its_walk():
    x = leaf(2.0, 3.0)
    for writes_first in (True, False):
        y = x * 1
        z = (lt.nn.functional.silu(y, inplace=True) if writes_first else y * y * y).sum()
        (g,) = grad(z, x, create_graph=True)
        if writes_first:
            g.sum().backward()
            continue
        y.add_(1)
        with pytest.raises(AutogradError, match="modified by an inplace operation"):
            g.sum().backward()


@pytest.mark.parametrize("function", [F.hardswish, F.mish])
def test_a_value_that_another_operation_needs_is_refused_however_many_nodes_write_over_it(function):
    x = leaf(2.0, 3.0)
    y = x * 1
    y.mul_(function(y))
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("write", "left"),
    [
        (lambda y: y.zero_(), 0),
        (lambda y: y.fill_(2.0), 0),
        (lambda y: y.copy_(lt.ones(2, 2)), 0),
        (lambda y: y.uniform_(), 0),
        (lambda y: y.__setitem__(slice(None), 0.5), 0),
        (lambda y: y.__setitem__(None, 0.5), 0),
        (lambda y: y[0].zero_(), 2),
        (lambda y: y.t()[:, 1].fill_(3.0), 2),
        (lambda y: y.__setitem__((0, 1), 0.5), 3),
    ],
)
def test_what_is_written_over_stays_tracked_and_its_part_has_no_gradient(write, left):
    x = lt.ones(2, 2, requires_grad=True)
    y = x * 1
    write(y)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.sum() == left
    with lt.no_grad():
        z = lt.ones(2, 2)
        write(z)
    assert not z.requires_grad


def test_a_leaf_that_was_written_to_is_refused_and_its_data_are_not():
    x, w, v = leaf(2.0), leaf(2.0), leaf(2.0)
    z = (v * x).sum()
    v.data.add_(1)
    z.backward()
    z = (w * x).sum()
    with lt.no_grad():
        w.add_(1)
    with pytest.raises(AutogradError, match=r"\[torch.FloatTensor \[1\]\] is at version 1; expected version 0"):
        z.backward()


def test_a_shared_part_of_two_graphs_is_used_up_by_one_walk():
    x = leaf(2.0)
    h = x.exp()
    first, second = h.sum(), (h * 2).sum()
    first.backward()
    with pytest.raises(AutogradError, match="a second time"):
        second.backward()


def test_hooks_see_and_replace_gradients():
    x = leaf(1.0, 2.0)
    y = x * x
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    after = []
    x.register_post_accumulate_grad_hook(lambda t: after.append(t.grad.tolist()))
    (y * 3).sum().backward(retain_graph=True)
    assert seen == [[3.0, 3.0]] and x.grad.tolist() == [61.0, 121.0] and after == [[61.0, 121.0]]
    handle.remove()
    assert grad((y * 3).sum(), x)[0].tolist() == [7.0, 13.0]
    assert len(seen) == 2
    with pytest.raises(AutogradError, match="doesn't require gradient"):
        lt.ones(1).register_hook(print)


def test_hook_belongs_to_one_of_two_equal_tensors():
    x = leaf(1.0)
    a, b = x * 3, x * 3
    a.register_hook(lambda g: g * 100)
    (a + b).sum().backward()
    assert x.grad.tolist() == [303.0]


def test_retain_grad_fills_grad_of_what_is_no_leaf():
    x = leaf(1.0, 2.0)
    y = x * x
    assert not y.is_leaf and y.grad_fn is not None and x.grad_fn is None and not y.retains_grad
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [2.0, 8.0] and y.retains_grad and x.grad.tolist() == [4.0, 32.0]


class Cube(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return 3 * ctx.factor * x * x * g, None


class Exponential(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Halves(Function):
    @staticmethod
    def forward(ctx, x):
        order = x.argsort() if hasattr(x, "argsort") else x.long()
        ctx.mark_non_differentiable(order)
        return x[:1] * 2, x[1:] * 3, order

    @staticmethod
    def backward(ctx, a, b, _order):
        return lt.cat([a * 2, b * 3])


Pair = collections.namedtuple("Pair", "first second")


class Packed(Function):
    @staticmethod
    def forward(ctx, x, pack):
        return pack((2 * x, 3 * x))

    @staticmethod
    def backward(ctx, first, second):
        return 2 * first + 3 * second, None


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("pack", [tuple, Pair._make, type("Own", (tuple,), {})])
def test_outputs_in_any_tuple_become_a_plain_tuple(pack, requires_grad):
    x = lt.ones(2, requires_grad=requires_grad)
    out = Packed.apply(x, pack)
    assert type(out) is tuple and [t.tolist() for t in out] == [[2, 2], [3, 3]]
    if requires_grad:
        (out[0] + out[1]).sum().backward()
        assert x.grad.tolist() == [5, 5]


class Wrong(Function):
    answer: tuple = ()

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return Wrong.answer


def test_function_has_its_own_gradient_to_second_order():
    x = leaf(1.0, 2.0)
    (g,) = grad(Cube.apply(x, 2.0).sum(), x, create_graph=True)
    assert g.tolist() == [6.0, 24.0]
    assert grad(g.sum(), x)[0].tolist() == [12.0, 24.0]
    (g,) = grad(Exponential.apply(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), np.exp([1, 2]), rtol=1e-6)
    np.testing.assert_allclose(grad(g.sum(), x)[0].numpy(), np.exp([1, 2]), rtol=1e-6)


def test_function_with_several_outputs():
    x = leaf(5.0, 7.0)
    a, b, order = Halves.apply(x)
    assert a.requires_grad and b.requires_grad and not order.requires_grad
    (a.sum() + 10 * b.sum()).backward()
    assert x.grad.tolist() == [2.0, 30.0]


def test_function_without_recording_leaves_no_trace():
    with lt.no_grad():
        assert not Cube.apply(leaf(1.0), 1.0).requires_grad
    assert not Exponential.apply(lt.ones(2)).requires_grad


@pytest.mark.parametrize(
    "answer, message", [((None,), "incorrect number"), ((lt.ones(3), None), "invalid gradient at index 0")]
)
def test_function_with_wrong_gradients_is_refused(answer, message):
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    Wrong.answer = answer
    with pytest.raises(AutogradError, match=message):
        Wrong.apply(x, y).sum().backward()


def test_once_differentiable_stops_the_second_derivative():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(3.0)
    (g,) = grad(Square.apply(x).sum(), x, create_graph=True)
    assert g.tolist() == [6.0] and not g.requires_grad


@pytest.mark.slow
def test_functions_and_hooks_leave_nothing_behind():
    x = leaf(1.0, 2.0)

    def once():
        y = Exponential.apply(Cube.apply(x, 2.0) * 0.1)
        y.register_hook(lambda g: g * 2)
        x.grad = None
        y.sum().backward()
        x.grad.tolist()

    once()
    before = live_nodes()
    for _ in range(50):
        once()
    assert live_nodes() < before + 25  # the last few may still be around


def test_module_hooks_see_gradients_and_change_them():
    layer = lt.nn.Linear(2, 1)
    seen = []
    layer.register_full_backward_pre_hook(lambda m, out: (out[0] * 2,))
    handle = layer.register_full_backward_hook(lambda m, i, o: seen.append((i[0].tolist(), o[0].tolist())))
    x = lt.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    doubled = (2 * layer.weight.detach()).tolist()
    assert seen == [(doubled, [[2.0]])] and x.grad.tolist() == doubled and layer.bias.grad.tolist() == [2.0]
    handle.remove()
    handle = layer.register_full_backward_hook(lambda m, i, o: (i[0] * 0,))
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]
    handle.remove()
    layer.register_full_backward_hook(lambda m, i, o: seen.append(i))
    layer(lt.ones(1, 2)).sum().backward()
    assert seen[-1] == (None,)


def test_state_dict_hooks():
    model = lt.nn.Sequential(lt.nn.Linear(1, 1))
    model[0].register_state_dict_post_hook(lambda m, state, prefix, _: state.update({f"{prefix}extra": 1}))
    state = model.state_dict()
    assert list(state) == ["0.weight", "0.bias", "0.extra"]
    told = []
    model[0].register_load_state_dict_pre_hook(lambda m, state, prefix, *_: state.pop(f"{prefix}extra"))
    model.register_load_state_dict_post_hook(lambda m, keys: told.append(keys))
    assert not model.load_state_dict(state).unexpected_keys
    assert "0.extra" in state and told[0].missing_keys == []


def test_modules_can_be_copied_and_pickled():
    model = lt.nn.Sequential(lt.nn.Linear(2, 3), lt.nn.ReLU(), lt.nn.Linear(3, 1))
    x = lt.ones(4, 2)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin(x).tolist() == model(x).tolist()
        twin(x).sum().backward()
        assert model[0].weight.grad is None and twin[0].weight.grad is not None
        with lt.no_grad():
            twin[0].weight.zero_()
        assert model[0].weight.abs().sum().item() > 0


def test_tied_parameters_stay_tied_in_a_copy():
    model = lt.nn.Sequential(lt.nn.Linear(2, 2), lt.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin[1].weight is twin[0].weight and twin[0].weight is not model[0].weight


# Their formulas share parts: silu, mish and the loss contain a sigmoid or softplus of the same operand.
SHARING_FUNCTIONS = {
    "sigmoid": lt.sigmoid,
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "tanh": lt.tanh,
    "tanhshrink": F.tanhshrink,
    "gelu": F.gelu,
    "exp": lt.exp,
    "sin": lt.sin,
    "cos": lt.cos,
    "sinh": lt.sinh,
    "square": lambda x: x * x,
    "cube": lambda x: x**3,
    "loss": lambda x: F.binary_cross_entropy_with_logits(x, lt.full((2,), 0.3), reduction="none"),
}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(SHARING_FUNCTIONS)), min_size=2, max_size=4),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_freed_graph_of_one_function_does_not_free_that_of_another(names, is_interleaved, random):
    x = leaf(0.25, -0.5)

    def first_gradient(name):
        return grad(SHARING_FUNCTIONS[name](x).sum(), x, create_graph=True)[0]

    def second_gradient(g):
        return grad(g.sum(), x)[0].tolist()

    expected = {name: grad(first_gradient(name).sum(), x, retain_graph=True)[0].tolist() for name in names}
    if is_interleaved:
        waiting = [(name, first_gradient(name)) for name in names]
        random.shuffle(waiting)
        found = [(name, second_gradient(g)) for name, g in waiting]
    else:
        found = [(name, second_gradient(first_gradient(name))) for name in names]
    assert all(answer == expected[name] for name, answer in found)


@pytest.mark.parametrize("name", SHARING_FUNCTIONS)
def test_freed_graph_is_refused_while_an_equal_one_is_alive(name):
    x = leaf(0.25, -0.5)
    freed, other = SHARING_FUNCTIONS[name](x), SHARING_FUNCTIONS[name](x)
    grad(freed.sum(), x)
    with pytest.raises(AutogradError, match="backward through the graph a second time"):
        grad(freed.sum(), x)
    grad(other.sum(), x)
