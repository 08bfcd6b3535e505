"""Signatures that configuration tools read are the original's, and classes say the names that scripts know them by."""

import pathlib

ROWS = pathlib.Path(__file__).parents[4] / "golden" / "signatures.txt"


def test_optimizers_schedules_and_losses_show_the_recorded_signatures(script):
    done = script(
        f"""
        import importlib, inspect, pathlib
        count = 0
        for line in pathlib.Path({str(ROWS)!r}).read_text().splitlines()[1:]:
            module, name, expected = line.split(" ", 2)
            kind = getattr(importlib.import_module(module), name)
            seen = inspect.signature(kind)
            if module == "torch.nn":
                # PyTorch gives two arguments of old no type.
                old = [p.replace(annotation=p.empty) if n in ("size_average", "reduce") else p
                       for n, p in seen.parameters.items()]
                seen = seen.replace(parameters=old)
            assert str(seen) == expected, (line, str(seen))
            own = list(inspect.signature(kind.__init__).parameters.values())
            assert own[0].name == "self" and own[1:] == list(inspect.signature(kind).parameters.values()), name
            count += 1
        print(count)
        """
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(ROWS.read_text().splitlines()) - 1


def test_annotations_are_the_classes_that_scripts_import(script):
    done = script(
        """
        import inspect, typing, torch.optim
        rates = cstorch.optim.lr_scheduler
        of = lambda kind, name: inspect.signature(kind).parameters[name].annotation
        assert of(rates.LinearLR, "optimizer") is torch.optim.Optimizer
        assert of(rates.ChainedLR, "schedulers") == typing.List[rates.LRScheduler]
        assert torch.Tensor in typing.get_args(typing.get_args(of(cstorch.optim.SGD, "params"))[0])
        cstorch.backend("CPU")
        sgd = cstorch.optim.SGD(MLP().parameters(), lr=0.1)
        assert isinstance(sgd, torch.optim.Optimizer) and not isinstance(sgd, torch.optim.SGD)
        schedule = rates.LinearLR(sgd, initial_learning_rate=1.0, end_learning_rate=0.5, total_iters=2)
        assert schedule.initial_learning_rate == 1.0
        """
    )
    assert done.returncode == 0, done.stderr


def test_types_print_the_names_of_pytorch_and_tensors_pickle_under_them(script):
    done = script(
        """
        import copy, pickle
        w = nn.Parameter(torch.ones(2))
        print(type(w.detach()), type(w), type(w.shape), type(w.dtype), type(w.device), torch.optim.Optimizer)
        for again in (pickle.loads(pickle.dumps(w)), copy.deepcopy(w)):
            assert type(again) is nn.Parameter and again.requires_grad and again.tolist() == [1.0, 1.0]
        assert pickle.loads(pickle.dumps(w.shape)) == w.shape
        """
    )
    assert done.returncode == 0, done.stderr
    names = (
        "torch.Tensor torch.nn.parameter.Parameter torch.Size torch.dtype torch.device torch.optim.optimizer.Optimizer"
    )
    assert done.stdout.split() == " ".join(f"<class '{name}'>" for name in names.split()).split()
