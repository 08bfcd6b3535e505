"""Layers that wait for their first input, averages of models, drawn classes: values recorded from PyTorch 2.13.0."""

import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch, nn = get_mirror("torch"), get_mirror("torch.nn")


def test_lazy_layers_become_plain_ones_with_pytorchs_values():
    torch.manual_seed(1)
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    net.eval()
    net.train()
    out = net(torch.ones(2, 3, 5, 5))
    assert out.tolist()[0] == pytest.approx([-0.1075, 0.15315], abs=1e-5)
    assert [type(m) for m in net] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Flatten, nn.Linear]
    assert net[4].in_features == 36 and net[0].training


def test_averages_of_models_and_their_schedule():
    averages = get_mirror("torch.optim.swa_utils")
    torch.manual_seed(1)
    model = nn.Linear(2, 1)
    mean = averages.AveragedModel(model)
    forgetful = averages.AveragedModel(model, multi_avg_fn=averages.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule, rates = averages.SWALR(optimizer, swa_lr=0.01, anneal_epochs=3), []
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        mean.update_parameters(model)
        forgetful.update_parameters(model)
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.0775, 0.0325, 0.01, 0.01, 0.01])
    assert mean.module.weight.tolist()[0] == pytest.approx([0.17685, -0.4996], abs=1e-5)
    assert forgetful.module.weight.tolist()[0] == pytest.approx([0.22599, -0.45046], abs=1e-5)
    assert list(mean.state_dict()) == ["n_averaged", "module.weight", "module.bias"] and int(mean.n_averaged) == 5


def test_statistics_are_found_anew_over_all_batches():
    norm = nn.BatchNorm1d(2)
    batches = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 2.0], [3.0, 0.0]])]
    get_mirror("torch.optim.swa_utils").update_bn(batches, norm)
    assert (norm.running_mean.tolist(), norm.running_var.tolist(), norm.momentum) == ([3.0, 2.0], [2.0, 2.0], 0.1)


def test_drawn_classes_are_pytorchs_and_have_a_gradient():
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    torch.manual_seed(0)
    soft = nn.functional.gumbel_softmax(logits)
    hard = nn.functional.gumbel_softmax(logits, hard=True)
    assert soft.tolist()[0] == pytest.approx(DRAWN[0], abs=1e-5) and hard.tolist()[0] == pytest.approx(DRAWN[1])
    hard[0, 2].backward()
    assert logits.grad.abs().sum().item() > 0


DRAWN = ([0.01965, 0.15228, 0.82807], [0.0, 0.0, 1.0])
