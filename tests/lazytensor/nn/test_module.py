"""Modules name, print, save and load as PyTorch's; optimizers follow recorded trajectories."""

import copy
import json
import pathlib
import pickle
import re
import warnings
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import nn, optim
from lazytensor.core.pytree import tree_leaves
from lazytensor.nn import hooks
from lazytensor.nn.module_scopes import name_scopes

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3, bias=False)
        self.act = nn.Sequential(nn.ReLU(), nn.GELU(approximate="tanh"), nn.Dropout(0.25))
        self.register_buffer("scale", lt.ones(3))
        self.gain = nn.Parameter(lt.zeros(2))
        self.register_buffer("scratch", lt.ones(1), persistent=False)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return self.act(self.fc(x)) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.heads = nn.ModuleDict({"a": nn.Identity(), "b": nn.Flatten()})
        self.last = nn.Sequential(OrderedDict(one=nn.Softmax(dim=-1), two=nn.ReLU(inplace=True)))


# Recorded from PyTorch 2.13.0.
NET = """Net(
  (blocks): ModuleList(
    (0-1): 2 x Block(
      (fc): Linear(in_features=4, out_features=3, bias=False)
      (act): Sequential(
        (0): ReLU()
        (1): GELU(approximate='tanh')
        (2): Dropout(p=0.25, inplace=False)
      )
    )
  )
  (heads): ModuleDict(
    (a): Identity()
    (b): Flatten(start_dim=1, end_dim=-1)
  )
  (last): Sequential(
    (one): Softmax(dim=-1)
    (two): ReLU(inplace=True)
  )
)"""
PARAMETERS = ["blocks.0.gain", "blocks.0.fc.weight", "blocks.1.gain", "blocks.1.fc.weight"]
STATE = "blocks.0.gain blocks.0.scale blocks.0.fc.weight blocks.1.gain blocks.1.scale blocks.1.fc.weight".split()


def test_modules_print_as_in_pytorch():
    assert repr(Net()) == NET
    assert (repr(nn.Sequential()), repr(nn.ModuleList())) == ("Sequential()", "ModuleList()")
    assert repr(nn.ModuleList([nn.Tanh(), nn.SiLU()])) == "ModuleList(\n  (0): Tanh()\n  (1): SiLU()\n)"


def test_names_are_paths_in_the_order_of_pytorch():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == PARAMETERS
    assert list(net.state_dict()) == STATE
    assert [n for n, _ in net.named_buffers()] == [f"blocks.{i}.{b}" for i in "01" for b in ("scale", "scratch")]
    assert [n for n, _ in net.named_modules()][:5] == ["", "blocks", "blocks.0", "blocks.0.fc", "blocks.0.act"]
    assert net.get_submodule("blocks.1.act.2") is net.blocks[1].act[2]


def test_shared_parameter_is_listed_once_and_saved_twice():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert [n for n, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


ZEROS = lt.zeros
LOADS = [
    ({"weight": ZEROS(3, 2)}, ['Missing key(s) in state_dict: "bias". ']),
    (
        {"weight": ZEROS(3, 2), "bias": ZEROS(3), "x": ZEROS(1), "y": ZEROS(1)},
        ['Unexpected key(s) in state_dict: "x", "y". '],
    ),
    (
        {"weight": ZEROS(2, 2), "z": ZEROS(4)},
        [
            'Missing key(s) in state_dict: "bias". ',
            'Unexpected key(s) in state_dict: "z". ',
            "size mismatch for weight: copying a param with shape torch.Size([2, 2]) from checkpoint, "
            "the shape in current model is torch.Size([3, 2]).",
        ],
    ),
]


@pytest.mark.parametrize("state, problems", LOADS)
def test_loading_refuses_with_the_words_of_pytorch(state, problems, pytorch_names):
    layer = nn.Linear(2, 3)
    before = layer.weight.tolist()
    with pytest.raises(RuntimeError) as caught:
        layer.load_state_dict(state)
    words = "Error(s) in loading state_dict for Linear:\n\t" + "\n\t".join(problems)
    assert str(caught.value).startswith(f"{words}\n") and type(caught.value) is RuntimeError
    # As in PyTorch, what fits is loaded.
    fits = state["weight"].shape == layer.weight.shape
    assert layer.weight.tolist() == (state["weight"].tolist() if fits else before)


def test_loading_reports_what_did_not_match():
    layer = nn.Linear(2, 3)
    assert repr(layer.load_state_dict(nn.Linear(2, 3).state_dict())) == "<All keys matched successfully>"
    found = layer.load_state_dict({"weight": lt.ones(3, 2), "q": lt.ones(1)}, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["bias"], ["q"])
    assert layer.weight.tolist() == [[1.0, 1.0]] * 3 and layer.weight.requires_grad
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        layer.load_state_dict({"weight": lt.ones(2, 2)}, strict=False)


def test_state_dict_shares_storage_and_round_trips():
    first, second = Net(), Net()
    second.load_state_dict(first.state_dict())
    for (name, a), b in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert a.tolist() == b.tolist(), name
    first.state_dict()["blocks.0.gain"].fill_(7)
    assert first.blocks[0].gain.tolist() == [7.0, 7.0] and second.blocks[0].gain.tolist() == [0.0, 0.0]


def test_train_and_eval_reach_every_module():
    net = Net()
    assert all(not m.training for m in net.eval().modules())
    assert all(m.training for m in net.train().modules())
    dropout = nn.Dropout(0.5).eval()
    assert dropout(lt.ones(100)).sum().item() == 100.0
    assert set(dropout.train()(lt.ones(100)).tolist()) == {0.0, 2.0}


def test_every_hook_stays_though_nobody_keeps_its_handle():
    module, calls = nn.Identity(), []
    for i in range(3):
        module.register_forward_hook(lambda *_, i=i: calls.append(i))
    handle = module.register_forward_hook(lambda *_: calls.append("removed"))
    handle.remove()
    module(lt.ones(1))
    assert calls == [0, 1, 2]


def test_hooks_see_and_replace_arguments_and_output():
    layer, seen = nn.Identity(), []
    before = layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    after = layer.register_forward_hook(lambda m, args, out: seen.append((args[0].item(), out.item())) or out * 10)
    assert layer(lt.tensor(1.0)).item() == 20.0 and seen == [(2.0, 2.0)]
    before.remove()
    after.remove()
    assert layer(lt.tensor(1.0)).item() == 1.0 and len(seen) == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copy_has_equal_values_and_its_own_storage(copied):
    net = Net()
    other = copied(net)
    assert repr(other) == repr(net) and list(other.state_dict()) == STATE
    assert [p.tolist() for p in other.parameters()] == [p.tolist() for p in net.parameters()]
    with lt.no_grad():
        net.blocks[0].gain.add_(1)
    assert other.blocks[0].gain.tolist() == [0.0, 0.0]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in other.parameters())
    (other.blocks[0](lt.ones(2, 4)).sum()).backward()
    assert net.blocks[0].fc.weight.grad is None and other.blocks[0].fc.weight.grad.shape == (3, 4)


def test_deepcopy_keeps_sharing():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    other = copy.deepcopy(net)
    assert other[1].weight is other[0].weight and other[0].weight is not net[0].weight


def test_conversion_changes_every_floating_tensor():
    net = Net().to(lt.bfloat16)
    assert {t.dtype for t in net.state_dict().values()} == {lt.bfloat16}
    assert net.blocks[0](lt.ones(1, 4, dtype=lt.bfloat16)).dtype is lt.bfloat16
    assert all(p.requires_grad for p in net.float().parameters())


@pytest.mark.parametrize(
    "act, kind, message",
    [
        (lambda m: m.nothing, AttributeError, "'Linear' object has no attribute 'nothing'"),
        (lambda m: setattr(m, "weight", ZEROS(2)), TypeError, "as parameter 'weight' (torch.nn.Parameter or None"),
        (lambda m: m.register_buffer("weight", ZEROS(1)), KeyError, "attribute 'weight' already exists"),
        (lambda m: m.register_parameter("a.b", None), KeyError, 't contain "."'),
        (lambda m: m.add_module("x", 3), TypeError, "int is not a Module subclass"),
        (lambda m: nn.Sequential(m, 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.get_submodule("q.w"), AttributeError, "Linear has no attribute `q`"),
        (lambda m: nn.ModuleList()[0], IndexError, "index 0 is out of range"),
        (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
        (lambda m: nn.Module()(1), NotImplementedError, 'Module [Module] is missing the required "forward" function'),
        (lambda m: nn.Dropout(1.5), ValueError, "dropout probability has to be between 0 and 1, but got 1.5"),
        (lambda m: optim.SGD([], 0.1), ValueError, "optimizer got an empty parameter list"),
        (lambda m: optim.SGD(m.parameters(), -1), ValueError, "Invalid learning rate: -1"),
        (lambda m: optim.SGD([m.weight, m.weight * 2], 1), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda m: optim.SGD(m.parameters(), 0.1, nesterov=True), ValueError, "Nesterov momentum requires a momentum"),
    ],
)
def test_misuse_says_what_pytorch_says(act, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        act(nn.Linear(2, 3))


def test_attribute_before_init_is_refused():
    class Early(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(2, 2)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


# -- optimizers --------------------------------------------------------------------------------------------------------

CASES = json.loads((GOLDEN / "optimizers.json").read_text())["cases"]
ARRAYS = np.load(GOLDEN / "optimizers.npz")
TOLERANCE = 2e-5
"""Twenty float32 steps: products are rounded in another order than in the recording."""


def make(case: str) -> tuple[list[nn.Parameter], optim.Optimizer]:
    params = [nn.Parameter(lt.tensor(ARRAYS[f"p0_{i}"])) for i in (0, 1)]
    return params, getattr(optim, CASES[case]["class"])(params, **CASES[case]["kwargs"])


def advance(params: list[nn.Parameter], optimizer: optim.Optimizer, step: int) -> None:
    for i, p in enumerate(params):
        p.grad = lt.tensor(ARRAYS[f"grad_{i}"][step])
    optimizer.step()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_optimizer_follows_the_recorded_trajectory(case):
    params, optimizer = make(case)
    for step in range(20):
        advance(params, optimizer, step)
        for i, p in enumerate(params):
            want = ARRAYS[f"{case}/param_{i}"][step]
            np.testing.assert_allclose(p.detach().numpy(), want, rtol=TOLERANCE, atol=TOLERANCE)
    for i in (0, 1):
        for name in CASES[case]["state"]:
            got, want = optimizer.state_dict()["state"][i][name], ARRAYS[f"{case}/state/{i}/{name}"]
            np.testing.assert_allclose(got.numpy(), want, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_optimizer_state_exists_before_the_first_step_under_recorded_names(case):
    saved = make(case)[1].state_dict()
    assert sorted(saved["state"].get(0, {})) == CASES[case]["state"]
    group = {k: str(v) for k, v in saved["param_groups"][0].items()}
    want = CASES[case]["group"]
    assert group.pop("params") == "[0, 1]" and group.keys() == want.keys()
    # Two groups of recorded numbers were given as ints or lists; their values agree.
    assert {k: eval(v) for k, v in group.items()} == {k: eval(v) for k, v in want.items()}


@pytest.mark.parametrize("case", CASES)
def test_optimizer_continues_from_its_state_dict(case):
    (params, optimizer), (others, resumed) = make(case), make(case)
    for step in range(5):
        advance(params, optimizer, step)
    with lt.no_grad():
        for p, q in zip(params, others, strict=True):
            q.copy_(p)
    resumed.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    for step in range(5, 8):
        advance(params, optimizer, step)
        advance(others, resumed, step)
    assert [p.tolist() for p in params] == [q.tolist() for q in others]


def test_groups_keep_their_settings_and_new_groups_get_state():
    a, b, c = (nn.Parameter(lt.ones(1)) for _ in "abc")
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.1, momentum=0.5)
    optimizer.add_param_group({"params": c, "lr": 10.0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 1.0, 10.0]
    for _ in range(2):
        optimizer.zero_grad()
        (a + b + c).sum().backward()
        optimizer.step()
    np.testing.assert_allclose([p.item() for p in (a, b, c)], [0.75, -1.5, -24.0], rtol=1e-6)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [a]})


def test_state_of_another_shape_of_groups_is_refused():
    a, b = nn.Parameter(lt.ones(1)), nn.Parameter(lt.ones(1))
    one, two = optim.SGD([a], 0.1), optim.SGD([a, b], 0.1)
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        one.load_state_dict(two.state_dict())


def test_step_takes_a_closure_and_zero_grad_forgets():
    p = nn.Parameter(lt.ones(2))
    optimizer = optim.SGD([p], 0.5)

    def closure() -> lt.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0 and p.tolist() == [0.0, 0.0]
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_slices_of_sequential_keep_their_keys_and_lists_are_numbered_anew():
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    assert list(model[1:].state_dict()) == ["2.weight", "2.bias"]
    assert list(nn.ModuleList(model)[1:].state_dict()) == ["1.weight", "1.bias"]
    del model[0]
    assert [name for name, _ in model.named_children()] == ["0", "1"]


def test_containers_grow_and_shrink_like_lists():
    model = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())
    model += [nn.GELU()]
    model.insert(1, nn.SiLU())
    assert [type(m).__name__ for m in model] == ["ReLU", "SiLU", "Tanh", "GELU"] and len(model * 2) == 8
    assert type(model.pop(0)) is nn.ReLU and [name for name, _ in model.named_children()] == ["0", "1", "2"]
    modules = nn.ModuleList([nn.ReLU()]) + nn.ModuleList([nn.Tanh()])
    modules += [nn.GELU()]
    assert type(modules.pop(1)) is nn.Tanh and [type(m) for m in modules] == [nn.ReLU, nn.GELU]
    del modules[0]
    assert [name for name, _ in modules.named_children()] == ["0"]


def test_a_buffer_that_is_not_persistent_is_not_saved_and_sees_what_it_was_given():
    x = lt.arange(6.0).view(2, 3)
    module = nn.Module()
    module.a, module.b = nn.Buffer(x[0], persistent=False), nn.Buffer(x)
    assert list(module.state_dict()) == ["b"] and module.a.tolist() == [0.0, 1.0, 2.0]
    module.a = lt.ones(3)
    assert list(module.state_dict()) == ["b"]
    module.a = nn.Buffer(lt.ones(3))
    assert sorted(module.state_dict()) == ["a", "b"]


def test_parameters_that_stand_in_two_places_are_named_twice_where_asked():
    layer = nn.Linear(1, 1)
    model = nn.Sequential(layer, layer)
    assert [n for n, _ in model.named_parameters()] == ["0.weight", "0.bias"]
    twice = ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert [n for n, _ in model.named_parameters(remove_duplicate=False)] == twice


def test_gradients_are_zeroed_in_place_where_asked():
    layer = nn.Linear(1, 1)
    layer(lt.ones(1, 1)).sum().backward()
    gradient = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad is gradient and gradient.tolist() == [[0.0]]


def test_hooks_take_keywords_come_first_and_run_after_errors_where_asked():
    layer, told = nn.Linear(2, 1), []
    layer.register_forward_hook(lambda m, args, kwargs, out: told.append(sorted(kwargs)), with_kwargs=True)
    layer.register_forward_hook(lambda *_: told.append("first"), prepend=True)
    layer.register_forward_pre_hook(lambda m, args, kwargs: (args, {"input": lt.zeros(1, 2)}), with_kwargs=True)
    assert layer(input=lt.ones(1, 2)).tolist() == [layer.bias.tolist()] and told == ["first", ["input"]]
    layer.register_forward_hook(lambda m, args, out: told.append(out), always_call=True)
    with pytest.raises(TypeError):
        layer(lt.ones(1, 2), 3)
    assert told[-1] is None


def test_hooks_of_all_modules_run_for_each_until_they_are_taken_away():
    calls = []
    moments = {
        "p": hooks.register_module_forward_pre_hook(lambda m, args: calls.append(("p", type(m).__name__))),
        "f": hooks.register_module_forward_hook(lambda m, args, out: calls.append(("f", type(m).__name__))),
        "b": hooks.register_module_full_backward_hook(lambda m, i, o: calls.append(("b", type(m).__name__))),
    }
    nn.Sequential(nn.Linear(2, 1), nn.Tanh())(lt.ones(1, 2)).sum().backward()
    for handle in moments.values():
        handle.remove()
    nn.Linear(1, 1)(lt.ones(1, 1))
    # The order of PyTorch 2.13.0.
    expected = "p Sequential p Linear f Linear p Tanh f Tanh f Sequential b Sequential b Tanh b Linear"
    assert " ".join(word for call in calls for word in call) == expected


def test_backward_hooks_see_the_gradient_of_what_forward_hooks_made_of_the_output():
    layer, seen = nn.Linear(2, 1, bias=False), []
    layer.register_full_backward_hook(lambda m, i, o: seen.append(o[0].tolist()))
    layer.register_forward_hook(lambda m, args, out: out * 10)
    layer(lt.ones(1, 2)).sum().backward()
    assert seen == [[[1.0]]] and layer.weight.grad.tolist() == [[10.0, 10.0]]


Pair = namedtuple("Pair", "first second")


class Pieces(nn.Module):
    """A module that returns x weight and x + 1 in the container that `pack` makes of them."""

    def __init__(self, pack):
        super().__init__()
        self.weight, self.pack = nn.Parameter(lt.tensor([2.0, 3.0])), pack

    def forward(self, x):
        return self.pack(x * self.weight, x + 1)


ONES = [1.0, 1.0]
# The gradients of the outputs that hooks see in PyTorch 2.13, or None if no hook runs.
PACKED = {
    "tuple": (lambda a, b: (a, b), [ONES, ONES]),
    "namedtuple": (Pair, [ONES, ONES]),
    "namedtuple with a number": (lambda a, b: Pair(a, 5), [ONES, None]),
    "nested": (lambda a, b: (a, (b, a)), [ONES, None]),
    "nested only": (lambda a, b: ((a, b),), None),
    "list": (lambda a, b: [a, b], None),
    "dict": (lambda a, b: {"a": a, "b": b}, None),
}


@pytest.mark.parametrize("pack, outputs", PACKED.values(), ids=PACKED)
def test_backward_hooks_see_the_gradients_of_tuples_only(pack, outputs):
    layer, seen = Pieces(pack), []
    layer.register_full_backward_hook(lambda m, ins, outs: seen.append([g if g is None else g.tolist() for g in outs]))
    x = lt.tensor([1.0, 4.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            out = layer(x)
    assert type(out) is type(pack(x, x))
    leaves = tree_leaves(out)
    sum(t.sum() for t in leaves if isinstance(t, lt.Tensor)).backward()
    assert seen == ([] if outputs is None else [outputs])
    # One warning for a line, however often it runs.
    assert len(found) == isinstance(out, list | dict)
    assert all("should be a Tensor or a tuple of Tensors" in str(w.message) for w in found)
    assert all(w.filename == __file__ for w in found)


def test_hooks_of_state_dicts_are_told_before_and_may_do_without_the_module():
    layer, told = nn.Linear(2, 1), []
    layer.register_state_dict_pre_hook(lambda m, prefix, keep_vars: told.append((prefix, keep_vars)))
    layer._register_load_state_dict_pre_hook(lambda state, prefix, *_: told.append(sorted(state)))
    layer._register_load_state_dict_pre_hook(lambda m, *_: told.append(type(m).__name__), with_module=True)
    layer.load_state_dict(layer.state_dict(prefix="x.") and nn.Linear(2, 1).state_dict())
    assert told == [("x.", False), ["bias", "weight"], "Linear"]


def test_scopes_name_containers_that_are_never_called():
    model = nn.Sequential(nn.ModuleList([nn.ModuleDict({"a": nn.Sequential(nn.Tanh())})]))
    name_scopes(model, "model")
    assert [m.__dict__["_scope"] for m in model.modules()] == ["model", "0", "0.0", "0.0.a", "0"]


def test_integer_buffers_move_with_a_device_and_a_dtype():
    for arguments in (("meta", lt.float64), (lt.zeros(1, dtype=lt.float64, device="meta"),)):
        norm = nn.BatchNorm1d(2).to(*arguments)
        assert {str(t.device) for t in norm.state_dict().values()} == {"meta"}
        assert norm.weight.dtype is lt.float64 and norm.num_batches_tracked.dtype is lt.int64


@pytest.mark.parametrize("wanted", [lt.int32, lt.zeros(1, dtype=lt.int64)])
def test_module_refuses_a_dtype_that_is_not_floating_point(wanted):
    with pytest.raises(TypeError, match="only accepts floating point"):
        nn.Linear(1, 1).to(wanted)


def test_average_pooling_has_no_indices():
    with pytest.raises(TypeError, match="return_indices"):
        nn.AdaptiveAvgPool2d(2, return_indices=True)
    assert len(nn.AdaptiveMaxPool2d(2, return_indices=True)(lt.ones(1, 1, 4, 4))) == 2


def test_causal_mask_is_on_the_device():
    assert str(nn.Transformer.generate_square_subsequent_mask(3, device="meta").device) == "meta"


@pytest.mark.parametrize("convert", [lambda m: m.to("cpu"), lambda m: m.double(), lambda m: m.double().float()])
def test_conversion_keeps_the_values_of_buffers_that_are_views(convert):
    m = nn.Module()
    m.register_buffer("row", lt.arange(4).expand((1, -1)))
    m.register_buffer("turned", lt.arange(6.0).view(2, 3).t())
    convert(m)
    assert m.row[:, 1:3].tolist() == [[1, 2]]
    assert m.turned[1].tolist() == [1, 4]


def test_a_conversion_that_changes_nothing_keeps_shared_storage():
    m, base = nn.Module(), lt.zeros(4)
    m.register_buffer("part", base[1:3])
    m.to("cpu").float()
    m.part.add_(1)
    assert base.tolist() == [0, 1, 1, 0]
