"""State dicts of modules: versions, extra state, older layouts, and tensors that are assigned."""

import io
from collections import OrderedDict

import numpy as np
import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch = get_mirror("torch")
nn = torch.nn
MATCHED = "<All keys matched successfully>"


class Counting(nn.Module):
    """A module whose state is more than tensors."""

    _version = 3

    def __init__(self, steps=0):
        super().__init__()
        self.steps, self.scale = steps, nn.Parameter(torch.tensor(1.0))

    def get_extra_state(self):
        return {"steps": self.steps}

    def set_extra_state(self, state):
        self.steps = state["steps"]


def test_state_dict_notes_the_version_of_each_module_and_files_keep_it():
    model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1), Counting())
    expected = {"": 1, "0": 1, "1": 2, "2": 3}
    state = model.state_dict()
    stream = io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    for found in (state, torch.load(stream)):
        assert {path: about["version"] for path, about in found._metadata.items()} == expected


def test_state_dict_fills_a_given_dict():
    given = OrderedDict(first=1)
    assert nn.Linear(1, 1).state_dict(destination=given, prefix="fc.") is given
    assert list(given) == ["first", "fc.weight", "fc.bias"]
    assert list(nn.Linear(1, 1, bias=False).state_dict(None, "fc.", False)) == ["fc.weight"]


def test_extra_state_is_saved_and_given_back():
    model, other = nn.Sequential(Counting(5)), nn.Sequential(Counting())
    assert list(model.state_dict()) == ["0.scale", "0._extra_state"]
    assert repr(other.load_state_dict(model.state_dict())) == MATCHED and other[0].steps == 5
    without = {k: v for k, v in model.state_dict().items() if "extra" not in k}
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0._extra_state"'):
        other.load_state_dict(without)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "_extra_state"'):
        nn.Linear(1, 1).load_state_dict({**nn.Linear(1, 1).state_dict(), "_extra_state": 1})


@pytest.mark.parametrize("form", ["plain dict", "older version"])
@pytest.mark.parametrize("layer", [nn.BatchNorm1d(2), nn.InstanceNorm1d(2, track_running_stats=True)])
def test_norms_load_states_from_before_the_count_of_batches(layer, form):
    model = nn.Sequential(layer)
    layer.num_batches_tracked.fill_(7)
    state = model.state_dict()
    del state["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0.num_batches_tracked"'):
        model.load_state_dict(state)
    if form == "older version":
        state._metadata["0"]["version"] = 1
    else:
        state = dict(state)
    assert repr(model.load_state_dict(state)) == MATCHED and layer.num_batches_tracked.item() == 7


@pytest.mark.parametrize("dim", [0, 1])
def test_parametrized_weight_norm_loads_the_names_of_the_older_hook(dim):
    older = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 2), dim=dim))
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2), dim=dim))
    state = older.state_dict()
    names = list(state)
    assert repr(model.load_state_dict(state)) == MATCHED and list(state) == names
    assert torch.allclose(model[0].weight, older[0].weight)


def test_tensor_of_one_element_is_loaded_into_a_number_and_nothing_else_is():
    model = Counting()
    state = {"scale": torch.tensor([4.0]), "_extra_state": {"steps": 1}}
    assert repr(model.load_state_dict(state)) == MATCHED and model.scale.item() == 4 and model.scale.shape == ()
    for value in (torch.ones(2), torch.ones(1, 1)):
        with pytest.raises(RuntimeError, match=r"size mismatch for scale"):
            model.load_state_dict({**state, "scale": value})


@pytest.mark.parametrize("value", [np.ones((1, 1), "f"), np.float32(1), [[1.0]], 1.0, None, "text"])
@pytest.mark.parametrize("assign", [True, False])
def test_value_that_is_no_tensor_is_named(value, assign):
    with pytest.raises(RuntimeError, match=r'parameter named "weight", expected torch.Tensor .* received <class'):
        nn.Linear(1, 1, bias=False).load_state_dict({"weight": value}, assign=assign)


def test_values_that_fit_are_loaded_before_the_error():
    model = nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match=r"size mismatch for bias(.|\n)*All other values have been loaded"):
        model.load_state_dict({"weight": torch.full((1, 2), 3.0), "bias": torch.ones(4)})
    assert model.weight.tolist() == [[3, 3]]


def test_state_that_is_no_dict_is_refused():
    with pytest.raises(TypeError, match=r"Expected state_dict to be dict-like, got <class 'list'>"):
        nn.Linear(1, 1).load_state_dict([("weight", torch.ones(1, 1))])


def test_assign_keeps_the_tensors_of_the_state():
    model, state = nn.Linear(2, 2), nn.Linear(2, 2).bfloat16().state_dict(keep_vars=True)
    model.bias.requires_grad_(False)
    assert repr(model.load_state_dict(state, assign=True)) == MATCHED
    assert model.weight is state["weight"] and model.weight.dtype == torch.bfloat16
    assert model.weight.requires_grad and not model.bias.requires_grad
    norm = nn.BatchNorm1d(2)
    state = {k: v.clone() for k, v in norm.state_dict().items()}
    norm.load_state_dict(state, assign=True)
    assert norm.running_mean is state["running_mean"] and type(norm.weight) is nn.Parameter


def test_assign_gives_a_meta_model_values():
    state = nn.Linear(2, 2).state_dict()
    model = nn.Linear(2, 2, device="meta")
    with pytest.warns(UserWarning, match=r"a no-op. \(Did you mean to pass `assign=True`"):
        model.load_state_dict(state)
    assert model.weight.device.type == "meta"
    model.load_state_dict(state, assign=True)
    assert model.weight.device.type == "cpu" and model.weight.tolist() == state["weight"].tolist()
    model(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad.shape == (2, 2)


def test_assign_of_integers_to_a_trained_parameter_is_refused():
    with pytest.raises(RuntimeError, match=r"an exception occurred : .*floating point"):
        nn.Linear(1, 1, bias=False).load_state_dict({"weight": torch.ones(1, 1).int()}, assign=True)


class Renaming(nn.Module):
    """A module that reads an older layout of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if prefix + "gamma" in state_dict:
            state_dict[prefix + "scale"] = state_dict.pop(prefix + "gamma")
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "saved"] = 1


def test_modules_may_define_how_their_state_is_saved_and_loaded():
    model = nn.Sequential(Renaming())
    state = {"0.gamma": torch.ones(1)}
    assert repr(model.load_state_dict(state)) == MATCHED and model[0].scale.item() == 1
    assert list(state) == ["0.gamma"] and list(model.state_dict()) == ["0.scale", "0.saved"]


def test_prefix_of_parallel_models_goes_from_names_and_versions():
    state = nn.ModuleDict({"module": nn.BatchNorm1d(1)}).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert state._metadata[""] == {"version": 2}
    assert repr(nn.BatchNorm1d(1).load_state_dict(state)) == MATCHED
