"""Scripts that PyTorch refuses are refused here, with its sentences."""

import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.autograd.function import Function
from lazytensor.data import DataLoader
from lazytensor.optim import lr_scheduler as S


@pytest.mark.parametrize(
    ("gradient", "error", "words"),
    [
        (lt.ones(2), RuntimeError, "gradient of size"),
        (lt.ones(1), RuntimeError, "gradient of size"),
        (lt.ones(3).double(), RuntimeError, "gradient with dtype"),
        ([1, 2, 3], TypeError, "Tensor or None"),
    ],
)
def test_gradient_that_does_not_fit_its_tensor_is_refused(gradient, error, words):
    x = lt.ones(3, requires_grad=True)
    with pytest.raises(error, match=words):
        x.grad = gradient


def test_gradient_that_fits_may_be_assigned_and_removed():
    x = lt.ones(3, requires_grad=True)
    x.grad = lt.ones(3)
    assert x.grad.tolist() == [1, 1, 1]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError, match="its own grad"):
        x.grad = x


@pytest.mark.parametrize("write", [lt.Tensor.masked_scatter, lt.Tensor.masked_scatter_])
def test_masked_scatter_refuses_too_few_values(write):
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        write(lt.zeros(4), lt.tensor([True, True, True, False]), lt.ones(2))


VIEWS = {
    "transposed": lambda: lt.ones(2, 3).t().view(6),
    "heads": lambda: lt.ones(2, 4, 3, 5).transpose(1, 2).view(2, 3, 20),
    "repeated": lambda: lt.ones(2, 1).expand(2, 3).view(6),
    "columns": lambda: lt.ones(4, 4)[:, :2].view(8),
    "view_as": lambda: lt.ones(2, 3).t().view_as(lt.ones(6)),
    "gradient": lambda: lt.ones(2, 3, requires_grad=True).t().view(-1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_that_strides_cannot_describe_is_refused(name):
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        VIEWS[name]()


def test_views_that_strides_describe_are_made():
    assert lt.ones(2, 3, 4).transpose(0, 1).view(3, 2, 2, 2).shape == (3, 2, 2, 2)
    assert lt.ones(8)[::2].view(2, 2).shape == (2, 2)
    assert lt.ones(2, 3).t().contiguous().view(6).shape == (6,)
    assert lt.ones(2, 3).t().reshape(6).shape == (6,)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.layer = nn.Parameter(lt.ones(1)), nn.Linear(1, 1)
        self.register_buffer("mean", lt.ones(1))


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("w", nn.Linear(1, 1), "parameter"),
        ("w", 3, "parameter"),
        ("layer", lt.ones(1), "child module"),
        ("mean", 3, "buffer"),
    ],
)
def test_member_of_another_kind_is_refused(name, value, kind):
    with pytest.raises(TypeError, match=f"as {kind} '{name}'"):
        setattr(Net(), name, value)


@pytest.mark.parametrize("name", ["batch_size", "sampler", "batch_sampler", "drop_last", "dataset"])
def test_settings_of_a_loader_are_fixed_once_it_is_made(name):
    loader = DataLoader([1, 2, 3])
    with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
        setattr(loader, name, 3)
    loader.collate_fn = list


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def test_graph_of_a_function_that_saved_tensors_is_used_once():
    y = Exp.apply(lt.ones(2, requires_grad=True)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_code_of_a_generator_runs_without_gradients_and_its_caller_with_them():
    @lt.no_grad()
    def numbers(x):
        try:
            sent = yield (x * 2).requires_grad
            yield sent, (x * 2).requires_grad
        except ValueError:
            yield lt.is_grad_enabled()
        return 7

    steps = numbers(lt.ones(1, requires_grad=True))
    assert next(steps) is False
    assert lt.is_grad_enabled()
    assert steps.send(5) == (5, False)
    assert steps.throw(ValueError) is False
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == 7
    assert lt.is_grad_enabled()


RESUMED = {
    "exponential": (lambda o: S.ExponentialLR(o, 0.5, last_epoch=2), [0.1, 0.05]),
    "cosine": (lambda o: S.CosineAnnealingLR(o, 7, last_epoch=2), [0.1, 0.063596]),
    "linear": (lambda o: S.LinearLR(o, 0.1, 1.0, 6, last_epoch=2), [0.1, 0.127273]),
    "polynomial": (lambda o: S.PolynomialLR(o, 7, 2.0, last_epoch=2), [0.1, 0.05625]),
    "multiplicative": (lambda o: S.MultiplicativeLR(o, lambda e: 0.5 + e / 10, last_epoch=2), [0.1, 0.09]),
    "warm restarts": (lambda o: S.CosineAnnealingWarmRestarts(o, 3, last_epoch=5), [0.1, 0.075]),
}


@pytest.mark.parametrize("name", RESUMED)
def test_schedule_that_resumes_begins_with_the_present_rate(name):
    build, rates = RESUMED[name]
    optimizer = lt.optim.SGD([nn.Parameter(lt.zeros(1))], lr=0.1)
    optimizer.param_groups[0]["initial_lr"] = 0.1
    schedule = build(optimizer)
    seen = schedule.get_last_lr()
    optimizer.step()
    schedule.step()
    assert [*seen, *schedule.get_last_lr()] == pytest.approx(rates, abs=1e-6)
