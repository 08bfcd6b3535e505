"""State dicts of PyTorch's optimizers: their keys in order, their types, and what a loaded one shares with the file."""

import copy

import pytest

import lazytensor as lt
from cstorch_compat.torch.optim.lbfgs import LBFGS
from lazytensor.errors import AutogradError, OperandInvalid
from lazytensor.nn import Linear, Parameter
from lazytensor.optim import eager

NUMBERS = {"step", "eta", "mu", "mu_product"}
STATES = [
    ("SGD", {}, ""),
    ("SGD", {"weight_decay": 0.1, "maximize": True}, ""),
    ("SGD", {"momentum": 0.9}, "momentum_buffer"),
    ("SGD", {"momentum": 0.9, "nesterov": True}, "momentum_buffer"),
    ("Adam", {}, "step exp_avg exp_avg_sq"),
    ("Adam", {"fused": True}, "step exp_avg exp_avg_sq"),
    ("Adam", {"amsgrad": True}, "step exp_avg exp_avg_sq max_exp_avg_sq"),
    ("AdamW", {"amsgrad": True, "foreach": True}, "step exp_avg exp_avg_sq max_exp_avg_sq"),
    ("Adamax", {}, "step exp_avg exp_inf"),
    ("NAdam", {}, "step mu_product exp_avg exp_avg_sq"),
    ("RAdam", {}, "step exp_avg exp_avg_sq"),
    ("RMSprop", {}, "step square_avg"),
    ("RMSprop", {"centered": True}, "step square_avg grad_avg"),
    ("RMSprop", {"momentum": 0.5}, "step square_avg momentum_buffer"),
    ("RMSprop", {"momentum": 0.5, "centered": True}, "step square_avg momentum_buffer grad_avg"),
    ("Adagrad", {}, "step sum"),
    ("Adadelta", {}, "step square_avg acc_delta"),
    ("ASGD", {}, "step eta mu ax"),
    ("Rprop", {}, "step prev step_size"),
]
GROUPS = {
    "SGD": "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused",
    "Adam": "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay",
    "AdamW": "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
    "decoupled_weight_decay",
    "Adamax": "lr betas eps weight_decay foreach maximize differentiable capturable",
    "NAdam": "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable "
    "differentiable",
    "RAdam": "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable",
    "RMSprop": "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable",
    "Adagrad": "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused",
    "Adadelta": "lr rho eps weight_decay maximize capturable foreach differentiable",
    "ASGD": "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable",
    "Rprop": "lr etas step_sizes foreach maximize differentiable capturable",
}


def made(name, dtype=lt.float32, **options):
    """Two parameters with a gradient and one without, and an optimizer of them."""
    parameters = [Parameter(lt.ones(2, 3, dtype=dtype)) for _ in range(3)]
    return parameters, getattr(eager, name)(parameters, lr=0.1, **options)


def step(parameters, optimizer):
    for p in (parameters[0], parameters[2]):
        p.grad = lt.full((2, 3), 0.5, dtype=p.dtype)
    optimizer.step()


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize(("name", "options", "keys"), STATES)
def test_state_has_the_keys_and_types_of_pytorch(name, options, keys, dtype):
    parameters, optimizer = made(name, dtype, **options)
    # Adagrad makes its state at once, for parameters without a gradient too.
    assert list(optimizer.state_dict()["state"]) == ([0, 1, 2] if name == "Adagrad" else [])
    for _ in range(2):
        step(parameters, optimizer)
    state = optimizer.state_dict()["state"]
    assert list(state) == ([0, 1, 2] if name == "Adagrad" else [0, 2] if keys else [])
    for one in state.values():
        assert list(one) == keys.split()
        for key, value in one.items():
            form = (lt.float32, ()) if key in NUMBERS else (dtype, (2, 3))
            assert (value.dtype, tuple(value.shape)) == form


@pytest.mark.parametrize("name", GROUPS)
def test_groups_have_the_keys_of_pytorch(name):
    _, optimizer = made(name)
    assert list(optimizer.state_dict()["param_groups"][0]) == [*GROUPS[name].split(), "params"]


@pytest.mark.parametrize(("name", "options", "keys"), STATES)
def test_loaded_state_is_the_tensors_of_the_file(name, options, keys):
    parameters, first = made(name, **options)
    step(parameters, first)
    file = copy.deepcopy(first.state_dict())
    parameters, second = made(name, **options)
    second.load_state_dict(file)
    for key in keys.split():
        assert second.state[parameters[0]][key] is file["state"][0][key]
    step(parameters, second)
    if "step" in keys:
        assert file["state"][0]["step"].item() == 2
    _, wide = made(name, lt.float64, **options)
    wide.load_state_dict(file)
    for key in keys.split():
        value = wide.state_dict()["state"][0][key]
        assert (value is file["state"][0][key]) == (key == "step")
        assert value.dtype is (lt.float32 if key == "step" else lt.float64)


def test_loaded_groups_are_copies():
    _, first = made("Adam")
    file = first.state_dict()
    file["param_groups"][0]["note"] = [1]
    file["param_groups"][0]["lr"] = lt.tensor(0.5)
    _, second = made("Adam")
    second.load_state_dict(file)
    second.param_groups[0]["note"].append(2)
    second.param_groups[0]["lr"].fill_(3.0)
    assert file["param_groups"][0]["note"] == [1]
    assert file["param_groups"][0]["lr"].item() == 0.5
    assert first.param_groups[0]["lr"] == 0.1


def test_state_dict_that_does_not_fit_leaves_the_state():
    parameters, optimizer = made("Adam")
    step(parameters, optimizer)
    with pytest.raises(ValueError, match="size of optimizer's group"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})
    assert list(optimizer.state_dict()["state"]) == [0, 2]


def test_numbers_and_unknown_entries_of_a_file_are_kept():
    parameters, optimizer = made("Adam")
    moments = {"exp_avg": lt.ones(2, 3), "exp_avg_sq": lt.ones(2, 3)}
    file = {"state": {0: {"step": 3, **moments, "note": "x"}, "more": 5}, "param_groups": made("Adam")[1].param_groups}
    file["param_groups"][0]["params"] = [0, 1, 2]
    optimizer.load_state_dict(file)
    step(parameters, optimizer)
    state = optimizer.state_dict()["state"]
    assert state[0]["step"].item() == 4
    assert (state[0]["note"], state["more"]) == ("x", 5)


def test_state_that_is_a_view_is_written_through_its_base():
    base = lt.zeros(3, 2, 3)
    parameters, optimizer = made("SGD", momentum=0.5)
    for p, part in zip(parameters, base, strict=True):
        optimizer.state[p]["momentum_buffer"] = part
    step(parameters, optimizer)
    assert base.tolist() == [[[v] * 3] * 2 for v in (0.5, 0.0, 0.5)]


@pytest.mark.parametrize("steps", [1, 2])
def test_state_of_lbfgs_has_the_keys_of_pytorch_and_can_be_loaded(steps):
    def trained(optimizer, p):
        def closure():
            optimizer.zero_grad()
            loss = ((p - lt.tensor([1.0, -2.0])) ** 4).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        return p.tolist()

    p = Parameter(lt.ones(2))
    first = LBFGS([p], max_iter=3, history_size=2)
    trained(first, p)
    keys = "func_evals n_iter al d t old_dirs old_stps ro H_diag prev_flat_grad prev_loss".split()
    state = first.state_dict()["state"][0]
    assert list(state) == keys
    assert len(state["al"]) == 2
    assert all(isinstance(v, lt.Tensor) for v in (state["H_diag"], *state["ro"]))
    twin = Parameter(p.detach().clone())
    second = LBFGS([twin], max_iter=3, history_size=2)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert trained(second, twin) == trained(first, p)


def test_names_of_parameters_are_in_the_groups():
    model = Linear(2, 3)
    optimizer = eager.Adam(model.named_parameters())
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="without names"):
        optimizer.add_param_group({"params": [Parameter(lt.ones(2))]})
    plain = eager.Adam(model.parameters())
    with pytest.raises(TypeError, match="ordered collections"):
        plain.add_param_group({"params": {Parameter(lt.ones(2))}})


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_implementations_that_exclude_each_other_are_refused(name):
    with pytest.raises(RuntimeError, match="cannot be `True` together"):
        made(name, foreach=True, fused=True)
    with pytest.raises(RuntimeError, match="does not support"):
        made(name, differentiable=True, fused=True)


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_implementations_that_need_another_device_are_refused(name):
    with pytest.raises(AutogradError, match="differentiable=True"):
        step(*made(name, differentiable=True))
    if "capturable" in GROUPS[name]:
        with pytest.raises(OperandInvalid, match="supported devices"):
            step(*made(name, capturable=True))
    with pytest.raises(ValueError, match="1-element"):
        getattr(eager, name)([Parameter(lt.ones(2))], lr=lt.tensor([0.1, 0.2]))
