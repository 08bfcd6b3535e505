"""Which parameters become sparse, what is refused or warned of, and what hooks are told."""

import numpy as np
import pytest

from cstorch_compat.cerebras.pytorch.optim.optimizers import SGD
from cstorch_compat.cerebras.pytorch.sparse.algorithm import SparsityAlgorithm, Static
from cstorch_compat.cerebras.pytorch.sparse.dynamic import GMP, SET, DynamicSparsityAlgorithm, RigL
from cstorch_compat.cerebras.pytorch.sparse.group import (
    Group,
    configure,
    default_sparse_param_filter,
    map_sparsity_algorithm,
)
from cstorch_compat.cerebras.pytorch.sparse.schedules import Constant, Linear
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import compile_model, process
from lazytensor import config, nn
from lazytensor.functional.creation import ones, tensor, zeros
from tests.cstorch_compat.cerebras.pytorch.sparse.sparse_runs import Training, batches

sparse = get_mirror("cerebras.pytorch.sparse")


RISING = {"type": "linear", "init": 0.3, "slope": 0.05}


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setattr(process.RUN, "backend", None)
    with config.override(jit=False):
        yield process.make_backend("CPU")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc1, self.fc2 = nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc2(self.fc1(self.embedding(x)))


def compiled_net():
    model = Net()
    compile_model.compile_model(model)
    return model


def masked(model):
    return sorted(name.removesuffix("_mask") for name, _ in model.named_buffers())


def test_every_parameter_of_a_model_gets_a_mask_of_ones_until_the_loop_begins():
    model = compiled_net()
    assert model.apply(Static(sparsity=0.5)) is None
    assert masked(model) == sorted(name for name, _ in model.named_parameters())
    assert all(bool(b.all()) for b in model.buffers())
    assert set(model.state_dict()) == {n + end for n in masked(model) for end in ("", "_mask")}


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (lambda: Group({"fc*": Static(0.5)}), ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]),
        (lambda: Group({"fc1": Static(0.5), "fc?.weight": Static(0.1)}), ["fc1.weight", "fc2.weight"]),
        (lambda: Group({lambda n, p: p.ndim == 1: Static(0.5)}), ["fc1.bias", "fc2.bias"]),
        (lambda: configure(0.5), ["fc1.weight", "fc2.weight"]),
        (lambda: configure({"sparsity": 0.5, "param_filter": ["*1.bias", "*2.bias"]}), ["fc1.bias", "fc2.bias"]),
        (
            lambda: configure([{"algorithm": "SET", "sparsity": 0.5, "param_filter": "fc1*"}]),
            ["fc1.bias", "fc1.weight"],
        ),
    ],
)
def test_filters_choose_the_parameters(algorithm, expected):
    model, made = compiled_net(), algorithm()
    model.apply(made)
    assert masked(model) == expected
    assert made.num_sparse_params == len(expected)


def test_the_first_filter_that_takes_a_parameter_has_it():
    group, model = Group({"*weight": Static(0.5), "fc*": Static(0.1)}), compiled_net()
    model.apply(group)
    assert sorted(group[0].sparse_params) == ["embedding.weight", "fc1.weight", "fc2.weight"]
    assert sorted(group[1].sparse_params) == ["fc1.bias", "fc2.bias"]
    assert group.get_sparse_params(model.fc1.bias).name == "fc1.bias"
    assert [str(p) for p in group.get_sparse_params(model.fc2)] == [
        "SparseParameter(fc2.weight)",
        "SparseParameter(fc2.bias)",
    ]


@pytest.mark.parametrize("sparsity", [lambda: Static(0.5), lambda: Group({"*": Static(0.5)})])
def test_a_parameter_that_requires_to_be_dense_stays_dense(sparsity):
    model = compiled_net()
    model.fc1.weight.requires_dense = True
    model.apply(sparsity())
    assert "fc1.weight" not in masked(model) and "fc1.bias" in masked(model)


@pytest.mark.parametrize("name", ["embedding.weight", "a.norm1.weight", "lm_head.weight", "Embedding.x", "pe_helper"])
def test_embeddings_norms_and_heads_stay_dense_by_default(name):
    assert not default_sparse_param_filter(name, zeros(3, 3))
    assert default_sparse_param_filter("fc.weight", zeros(3, 3))
    assert not default_sparse_param_filter("fc.bias", zeros(3))


def test_a_model_that_was_not_prepared_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"'Static' object is not callable.*cstorch.compile"):
        Net().apply(Static(sparsity=0.5))


def test_functions_can_still_be_applied():
    model, seen = compiled_net(), []
    assert model.apply(seen.append) is model
    assert len(seen) == 4
    optimizer = SGD(model.parameters(), lr=0.1)
    assert optimizer.apply(lambda o: o is optimizer) is True
    with pytest.raises(TypeError, match="Expected a callable"):
        optimizer.apply(3)


def test_a_module_that_is_sparse_already_is_left_with_a_warning():
    model, sparsity = compiled_net(), Static(0.5)
    model.apply(sparsity)
    with pytest.warns(UserWarning, match="has already been sparsified"):
        model.apply(Static(0.3))
    assert float(sparsity.sparsity[model.fc1.weight](0)) == 0.5


def test_filters_that_take_nothing_are_warned_of():
    with pytest.warns(UserWarning, match="No parameters were sparsified"):
        compiled_net().apply(Group({"nothing*": Static(0.5)}))


def test_the_optimizer_may_be_made_sparse_first():
    def run_in_order(optimizer_first):
        model, sparsity = nn.Sequential(nn.Linear(6, 8)), Static(0.5, init_method="topk")
        compiled = compile_model.compile_model(model)
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
        for target in (optimizer, model) if optimizer_first else (model, optimizer):
            target.apply(sparsity)
        sparsity.initialize()
        for x, y in batches(3):
            optimizer.zero_grad()
            ((compiled(x) - y) ** 2).mean().backward()
            optimizer.step()
        return optimizer.state[model[0].weight]["momentum_buffer"].numpy() != 0, model[0].weight_mask.numpy()

    for order in (True, False):
        state, mask = run_in_order(order)
        np.testing.assert_array_equal(state, mask)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Static(1.5), ValueError, "Invalid sparsity level 1.5. Must be 0.0 <= s < 1.0"),
        (lambda: Static(Linear(0.1, 0.1)), ValueError, "only supports constant sparsity"),
        (lambda: compiled_net().apply(Static()), ValueError, "expected `sparsity` to be specified"),
        (lambda: compiled_net().apply(SET()), ValueError, "SET sparsity algorithm expected"),
        (lambda: SET(sparsity=-1), ValueError, "Invalid sparsity level -1"),
        (lambda: SET(sparsity=0.5, drop_fraction=1.5), ValueError, "Invalid drop_fraction 1.5"),
        (lambda: GMP(), ValueError, "GMP sparsity algorithm expected"),
        (lambda: GMP(sparsity=0.5), ValueError, "would not change during training"),
        (lambda: RigL(sparsity=0.5, balance_in_groups=2, balance_out_groups=2), ValueError, "Only one of"),
        (
            lambda: compiled_net().apply(RigL(sparsity=0.5, balance_in_groups=2)),
            ValueError,
            "inputs of a matrix can be grouped",
        ),
        (lambda: compiled_net().apply(Group()), RuntimeError, "No groups were added"),
        (lambda: Group({3: Static(0.5)}), TypeError, "filter must be a string or callable"),
        (lambda: Group({"x": 3}), TypeError, "must be an instance of SparsityAlgorithm"),
        (lambda: Group({"x": Group()}), TypeError, "use the extend method"),
        (lambda: Group().extend(3), TypeError, "must be an instance of Group"),
        (lambda: Group().sparsity, NotImplementedError, r"group\[0\].sparsity"),
        (lambda: configure({"algorithm": "foo"}), NameError, "'foo': expected one of .*'rigl'"),
        (lambda: configure({}), KeyError, "sparsity"),
        (lambda: configure({"sparsity": 0.5, "extra": 1}), TypeError, "extra"),
        (lambda: configure({"sparsity": 0.5, "param_filter": 3}), TypeError, "string or list of strings"),
        (lambda: configure(None), TypeError, "Expected a sparsity level, a dict or a list"),
        (lambda: Static(0.5).apply(3), TypeError, "Expected torch.nn.Module or cstorch.optim.Optimizer"),
        (lambda: Static(0.5).get_sparse_params(3), TypeError, "Expected torch.nn.Module"),
        (lambda: SET(sparsity=0.5).update(), TypeError, "Expected torch.nn.Module or torch.optim.Optimizer"),
        (lambda: SET(sparsity=0.5).load_state_dict({}), KeyError, "step"),
        (lambda: Static(0.5).load_state_dict({"step": 1}), ValueError, "has no state"),
        (lambda: SparsityAlgorithm(0.5), TypeError, "abstract"),
    ],
)
def test_bad_settings_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_text_configures_nothing_and_the_older_key_is_warned_of():
    with pytest.warns(UserWarning, match="configures nothing"):
        assert configure("x") is None
    with pytest.warns(UserWarning, match="use 'algorithm' instead"):
        assert isinstance(configure({"type": "static", "sparsity": 0.3})[0], Static)


def test_algorithms_are_found_by_name_those_of_users_too():
    class Frozen(DynamicSparsityAlgorithm):
        def update_mask(self, p, mask, sparsity):
            return mask

    assert [map_sparsity_algorithm(n) for n in ("GMP", "rigl", "frozen")] == [GMP, RigL, Frozen]
    training = Training(Frozen(sparsity=0.5, init_method="topk")).fit(batches(2))
    assert all(m["0.weight_mask"].sum() == 24 for m in training.masks)


def test_levels_can_differ_by_parameter():
    model, sparsity = compiled_net(), SET(sparsity=0.5, init_method="topk")
    sparsity.sparsity[model.fc1.weight] = 0.25
    model.apply(sparsity)
    sparsity.initialize()
    assert [int(m.sum()) for m in (model.fc1.weight_mask, model.fc2.weight_mask)] == [12, 4]
    sparsity.sparsity = 0.75
    assert isinstance(sparsity.sparsity[model.fc1.weight], Constant)
    assert float(sparsity.sparsity[model.fc1.weight](0)) == 0.75


def test_hooks_are_told_the_target_and_the_measured_sparsity():
    sparsity, seen = GMP(sparsity=RISING, init_method="topk"), []
    group = Group({"*weight": Static(0.5), "*": sparsity})
    handles = group.register_target_sparsity_hook(lambda who, name, level: seen.append(("target", name, float(level))))
    group.register_computed_sparsity_hook(lambda who, name, level: seen.append(("measured", name, float(level))))
    training = Training(group).fit(batches(1))
    assert seen == [
        ("target", "*", 0.5),
        ("measured", "*", 0.5),
        ("target", "0.bias*", pytest.approx(0.35)),
        ("measured", "0.bias", pytest.approx(3 / 8)),
    ]
    for h in handles:
        h.remove()
    del seen[:]
    training.fit(batches(1))
    assert [what for what, *_ in seen] == ["measured", "measured"]


def test_masks_change_by_hand_when_updates_are_left_to_the_script():
    sparsity = GMP(sparsity=RISING, init_method="topk")
    sparsity.autoupdate = False
    training = Training(sparsity).fit(batches(3))
    assert int(sparsity.step) == 0
    assert len({m["0.weight_mask"].tobytes() for m in training.masks}) == 1
    sparsity.update(training.optimizer)
    assert int(sparsity.step) == 1
    assert int(training.model[0].weight_mask.sum()) == 31  # 0.65 * 48, rounded down


def test_a_sparse_parameter_answers_for_itself():
    model, sparsity = compiled_net(), Static(0.5, init_method="topk")
    model.apply(sparsity)
    p = sparsity.get_sparse_params(model.fc1.weight)
    assert p.param is model.fc1.weight and p.module is model.fc1 and p.mask is model.fc1.weight_mask
    assert p.data.tolist() == p.param.tolist()
    with pytest.raises(RuntimeError, match="before it was initialized"):
        p.mask = ones(4, 4) > 0
    p.initialize()
    p.mask = zeros(4, 4) > 0
    p.prune()
    assert not p.data.numpy().any()
    with pytest.raises(RuntimeError, match="before tensors are pruned"):
        p.annotate("level", 1.0)
    p.clear()
    p.annotate("level", 1.0)
    with pytest.raises(ValueError, match=r"must be bool\[4, 4\]"):
        p.update(zeros(4, 4))
    assert sparsity.get_sparse_params(tensor([1.0])) is None


def test_loading_a_dense_checkpoint_says_which_masks_are_missing():
    dense, model = nn.Sequential(nn.Linear(6, 8)).state_dict(), nn.Sequential(nn.Linear(6, 8))
    sparsity = Static(0.5, init_method="topk")
    compile_model.compile_model(model)
    model.apply(sparsity)
    with pytest.raises(RuntimeError, match=r"Missing key.*0\.weight_mask"):
        model.load_state_dict(dense)
    model.load_state_dict(dense, strict=False)
    sparsity.initialize()
    kept = np.abs(dense["0.weight"].numpy())[model[0].weight_mask.numpy()]
    assert len(kept) == 24 and kept.min() >= np.median(np.abs(dense["0.weight"].numpy()))


def test_the_package_and_its_modules_offer_the_same_objects():
    assert sparse.configure is configure
    assert sparse.utils.make_hyperparam_schedule(0.5).value == 0.5
    assert sparse.init.make_init_method("topk") is sparse.init.topk
    assert sparse.base.SparsityAlgorithm is sparse.SparsityAlgorithm is SparsityAlgorithm
