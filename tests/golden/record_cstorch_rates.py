"""Record which rates a script of release 2.10 reads of a schedule, and where, into cstorch_rates.json.

    python tests/golden/record_cstorch_rates.py        # in an environment with torch and cerebras_pytorch 2.10.0

The bin folder of the environment has to be on PATH.
`tests/cstorch_compat/cerebras/pytorch/optim/test_learning_rates.py` imports the schedules and the loop below and
follows the answers. CPU: the values at each place in each step. CSX, which is traced and not run without a cluster:
whether a place has a number, a tensor with a value or one without.
"""

import contextlib
import importlib
import json
import math
import os
import pathlib
import re
import tempfile
import warnings

HERE = pathlib.Path(__file__).parent
STEPS = 6
GIVEN = {"lr": 0.5, "weight_decay": 0.125}
"""The settings of the optimizer; no schedule begins with them."""
BY_HAND = 0.0625
"""What the script sets them to in the third step, in one use."""
FACTOR = 0.25
"""What each group asks of a schedule that scales by group."""

LINEAR, EXPONENTIAL, CONSTANT = ("Linear", 0.3, 0.1, 4), ("Exponential", 0.3, 4, 0.5), ("Constant", 0.05)
TWO, CHAIN = ("Sequential", [LINEAR, CONSTANT], [2]), ("Chained", [LINEAR, EXPONENTIAL])
SCALED = ("ScalePerParam", LINEAR)
SCHEDULES = {
    "constant": ("Constant", 0.3),
    "constant of some steps": ("Constant", 0.3, 3),
    "constant of a whole number": ("Constant", 1),
    "polynomial": ("Polynomial", 0.3, 0.1, 4),
    "polynomial squared": ("Polynomial", 0.3, 0.1, 4, 2.0),
    "polynomial root": ("Polynomial", 0.3, 0.1, 4, {"power": 0.5, "cycle": True}),
    "linear": LINEAR,
    "linear up": ("Linear", 0.0, 0.1, 10),
    "linear of whole numbers": ("Linear", 1, 0, 4),
    "linear of half a step": ("Linear", 0.3, 0.1, 2.5),
    "exponential": EXPONENTIAL,
    "exponential stairs": ("Exponential", 0.3, 2, 0.5, {"staircase": True}),
    "inverse exponential": ("InverseExponentialTimeDecay", 0.3, 2, 4, 0.5),
    "inverse exponential stairs": ("InverseExponentialTimeDecay", 0.3, 1, 4, 0.5, True),
    "inverse root": ("InverseSquareRootDecay", 0.3, 2.0, 3),
    "inverse root as it is": ("InverseSquareRootDecay",),
    "cosine decay": ("CosineDecay", 0.3, 0.1, 4),
    "cosine annealing": ("CosineAnnealing", 0.3, 4, 0.1),
    "cosine restarts": ("CosineAnnealingWarmRestarts", 0.3, 3, 1, 0.1),
    "step": ("Step", 0.3, 2, 0.5),
    "step of a text": ("Step", "0.3", 2, 0.5),
    "multistep": ("MultiStep", 0.3, 0.5, [1, 3, 4]),
    "multistep out of order": ("MultiStep", 0.3, 0.5, [4, 2]),
    "multistep of none": ("MultiStep", 0.3, 0.5, []),
    "multiplicative": ("Multiplicative", 0.3, 0.9),
    "lambda": ("Lambda", 0.3),
    "lambda of none": ("Lambda0", 0.3),
    "lambda of one": ("Lambda1", 0.3),
    "lambda of three": ("Lambda3", 0.3),
    "piecewise": ("PiecewiseConstant", [0.3, 0.2, 0.1], [2, 4]),
    "cyclic": ("Cyclic", 0.1, 0.3, 2, 3),
    "cyclic halved": ("Cyclic", 0.1, 0.3, 2, {"mode": "triangular2", "scale_mode": "iterations"}),
    "cyclic exponential": ("Cyclic", 0.1, 0.3, 2, {"mode": "exp_range", "gamma": 0.9, "scale_mode": "cycle"}),
    "cyclic of an unknown mode": ("Cyclic", 0.1, 0.3, 2, {"mode": "saw"}),
    "one cycle": ("OneCycle", 0.1, 0.3, 10),
    "one cycle of lines": ("OneCycle", 0.1, 0.3, 10, {"anneal_strategy": "linear"}),
    "one cycle of an unknown strategy": ("OneCycle", 0.1, 0.3, 10, {"anneal_strategy": "saw"}),
    "one cycle of three phases": ("OneCycle", 0.1, 0.3, 10, {"three_phase": True, "pct_start": 0.4}),
    "own": ("Own", 4),
    "own from the third step": ("Own", 4, 3),
    "sequential": TWO,
    "sequential of three": ("Sequential", [LINEAR, ("CosineDecay", 0.2, 0.1, 3), CONSTANT], [2, 4]),
    "sequential from the second step": ("Sequential", [LINEAR, ("Step", 0.2, 1, 0.5)], [2], 2),
    "sequential in sequential, first": ("Sequential", [TWO, CONSTANT], [4]),
    "sequential in sequential, second": ("Sequential", [CONSTANT, TWO], [2]),
    "chain in sequential, first": ("Sequential", [CHAIN, CONSTANT], [3]),
    "chain in sequential, second": ("Sequential", [CONSTANT, CHAIN], [2]),
    "scaled in sequential, first": ("Sequential", [SCALED, CONSTANT], [2]),
    "scaled in sequential, second": ("Sequential", [CONSTANT, SCALED], [2]),
    "piecewise in sequential": ("Sequential", [("PiecewiseConstant", [0.3, 0.2], [2]), CONSTANT], [4]),
    "sequential in chain in sequential": ("Sequential", [("Chained", [TWO, EXPONENTIAL]), CONSTANT], [5]),
    "chain": CHAIN,
    "chain of three": ("Chained", [LINEAR, EXPONENTIAL, ("CosineDecay", 0.2, 0.1, 4)]),
    "chain after a constant": ("Chained", [CONSTANT, ("Step", 0.2, 2, 0.5), ("Multiplicative", 0.2, 0.9)]),
    "chain that begins at zero": ("Chained", [LINEAR, ("Linear", 0.0, 0.1, 4)]),
    "sequential in chain": ("Chained", [TWO, EXPONENTIAL]),
    "chain in chain": ("Chained", [CHAIN, EXPONENTIAL]),
    "scaled in chain": ("Chained", [SCALED, EXPONENTIAL]),
    "older name of a chain": ("ChainedScheduler", [LINEAR, EXPONENTIAL]),
    "scaled": SCALED,
    "scaled sequential": ("ScalePerParam", TWO),
    "scaled chain": ("ScalePerParam", CHAIN),
    "scaled twice": ("ScalePerParam", SCALED),
}
"""Each schedule by its class without LR or WD, and its arguments; a dict has those by name."""
REFUSED = {
    "unknown tag": (LINEAR, ["nowhere"]),
    "tag given twice": (LINEAR, ["a", "a"]),
    "constant later in a chain": (("Chained", [LINEAR, CONSTANT]), ["a"]),
    "sequential later in a chain": (("Chained", [LINEAR, TWO]), ["a"]),
    "too few milestones": (("Sequential", [LINEAR, LINEAR], []), ["a"]),
    "restarts of other lengths": (("CosineAnnealingWarmRestarts", 0.3, 3, 2), ["a"]),
}
"""Schedules that cannot be made for an optimizer whose groups are tagged a and b, with their tags."""
USES = {
    "before the optimizer": "first",
    "twice in a step": "twice",
    "never": "never",
    "in a traced function of its own": "second function",
    "in the loop": "loop",
    "before the loop": "early",
    "in two loops": "loops",
    "with a rate that is a tensor": "tensor",
    "with a rate that the script sets": "by hand",
    "from a state dict": "loaded",
    "with AdamW": "AdamW",
}
"""Where scripts call `step` of a schedule, or what else they do; each with the schedules of `USED`."""
USED = {"linear": LINEAR, "sequential": TWO, "chain": CHAIN, "scaled": SCALED}
REFUSED_ON_CSX = ("in the loop",)


def families(cstorch):
    """The classes of both families by their names without LR or WD, with those that a script writes itself."""
    found = {}
    for name, suffix in (("lr", "LR"), ("weight_decay", "WD")):
        home = getattr(cstorch.optim, f"{name}_scheduler")
        base = home.LRScheduler if name == "lr" else home.WeightDecayScheduler
        members = {n: getattr(home, n) for n in dir(home)}
        classes = {
            n.removesuffix(suffix): c
            for n, c in members.items()
            if isinstance(c, type) and issubclass(c, base) and c is not base
        }
        # The older name is there for learning rates only.
        older = {"ChainedScheduler": classes["Chained"]}
        found[name] = older | classes | written(base, classes["Lambda"])
    return found


def written(base, product):
    """Schedules as scripts write them: a closed form, and products of some functions."""

    class Own(base):
        def __init__(self, optimizer, total_iters, last_epoch=-1, param_group_tags=None):
            super().__init__(optimizer, total_iters, last_epoch, param_group_tags)

        def _get_closed_form(self):
            return 0.5 - self.last_epoch * 0.0625

    def lambdas(*functions):
        return type("Own", (product,), {"set_value_lambda": lambda self: list(functions)})

    half, up = lambda epoch: 0.5**epoch, lambda epoch: epoch + 1
    return {"Own": Own, "Lambda0": lambdas(), "Lambda1": lambdas(half), "Lambda3": lambdas(half, up, half)}


def make(classes, spec, optimizer, tags):
    """A schedule of an optimizer, with its parts, for the groups with one of the tags."""
    name, *args = spec
    kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
    if name in ("Sequential", "Chained", "ChainedScheduler"):
        args[0] = [make(classes, part, optimizer, tags) for part in args[0]]
    elif name == "ScalePerParam":
        args[0] = make(classes, args[0], optimizer, tags)
    first = () if name.startswith("Chained") else (optimizer,)
    return classes[name](*first, *args, **kwargs, param_group_tags=tags)


def kind_of(torch, value):
    """What a place shows: a number, a tensor of the client or one that is on the system."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return "lazy" if value.device.type != "cpu" else str(value.dtype).rpartition(".")[2]


class Watched:
    """An optimizer with one group for each schedule, and what is seen of them: `seen[place][schedule]` is a list."""

    def __init__(self, cstorch, torch, specs, use="", settings=GIVEN):
        self.torch, self.seen, self.kinds = torch, {}, {}
        self.names = [f"{family}/{name}" for family in GIVEN for name in specs]
        parameters = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(1)) for _ in specs])
        self.model = cstorch.compile(Sums(torch, parameters), cstorch.backend())
        groups = [
            {"params": [p], "tags": name, "adjust_learning_rate": FACTOR, "adjust_val": FACTOR}
            for name, p in zip(specs, parameters, strict=True)
        ]
        kind = cstorch.optim.AdamW if use == "AdamW" else cstorch.optim.SGD
        given = {k: torch.tensor(v) if use == "tensor" else v for k, v in settings.items()}
        self.optimizer = kind(groups, **given)
        classes = families(cstorch)
        self.schedules = [
            make(classes[family], spec, self.optimizer, name) for family in GIVEN for name, spec in specs.items()
        ]

    def read(self):
        """The setting in the group and the last value of each schedule."""
        groups = self.optimizer.param_groups
        pairs = []
        for i, schedule in enumerate(self.schedules):
            k = i % len(groups)
            last = schedule.get_last_lr() if hasattr(schedule, "get_last_lr") else schedule.get_last_value()
            pairs.append((groups[k][schedule.param_group_key], last[k]))
        return pairs

    def note(self, place, pairs=None):
        """Write down what a place shows."""
        for name, pair in zip(self.names, self.read() if pairs is None else pairs, strict=True):
            for what, value in zip(("group", "last"), pair, strict=True):
                where = f"{place}.{what}"
                self.kinds.setdefault(where, {}).setdefault(name, kind_of(self.torch, value))
                with contextlib.suppress(RuntimeError):  # a tensor without a value
                    self.seen.setdefault(where, {}).setdefault(name, []).append(float(value))

    def step(self):
        """Call `step` of all schedules."""
        for schedule in self.schedules:
            schedule.step()

    def step_traced(self, use):
        """Call `step` of the optimizer and of the schedules in a traced function; what is seen behind either."""
        self.note("trace before")
        if use == "first":
            self.step()
        self.optimizer.step()
        self.note("trace after the optimizer")
        middle = self.read()
        if use not in ("first", "never", "second function", "loop"):
            self.step()
        if use == "twice":
            self.step()
        self.note("trace after the schedule")
        return middle, self.read()

    def load_stepped(self, other):
        """Load the states of other schedules after a step."""
        other.step()
        for mine, theirs in zip(self.schedules, other.schedules, strict=True):
            mine.load_state_dict(theirs.state_dict())

    def note_state(self):
        """Write down what the state dicts of the optimizer and of the schedules show."""
        groups, pairs = self.optimizer.state_dict()["param_groups"], []
        for i, schedule in enumerate(self.schedules):
            k = i % len(groups)
            pairs.append((groups[k][schedule.param_group_key], schedule.state_dict()["_last_value"][k]))
        self.note("state dict", pairs)


class Sums:
    """Makes a model whose output is the sum of its parameters times the batch."""

    def __new__(cls, torch, parameters):
        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.rates = parameters

            def forward(self, x):
                return (x * torch.cat(list(self.rates)).sum()).sum()

        return Module()


def watch(cstorch, torch, specs, use="", steps=STEPS):
    """Run a loop with the schedules on the backend there is, and note what each place shows of them."""
    watched = Watched(cstorch, torch, specs, use)
    watched.note("made")
    if use == "early":
        watched.step()
    if use == "loaded":
        watched.load_stepped(Watched(cstorch, torch, specs))

    @cstorch.trace
    def train(batch):
        loss = watched.model(batch)
        watched.optimizer.zero_grad()
        loss.backward()
        return loss, *watched.step_traced(use)

    @cstorch.trace
    def advance():
        watched.step()
        return watched.read()

    @cstorch.step_closure
    def log(loss, middle, end, after):
        watched.note("argument after the optimizer", middle)
        watched.note("argument after the schedule", end)
        watched.note("argument of the loop", after)
        watched.note("closure")

    save = cstorch.checkpoint_closure(watched.note_state)
    batches = cstorch.utils.data.DataLoader(lambda: [torch.ones(2, 1)] * steps)
    for _ in range(2 if use == "loops" else 1):
        for i, batch in enumerate(cstorch.utils.data.DataExecutor(batches, steps, checkpoint_steps=2)):
            if use == "by hand" and i == 2:
                for group in watched.optimizer.param_groups:
                    group.update(dict.fromkeys(GIVEN, BY_HAND))
            watched.note("loop before")
            loss, middle, end = train(batch)
            if use == "second function":
                end = advance()
            if use == "loop":
                watched.step()
            watched.note("loop after")
            log(loss, middle, end, watched.read())
            save()
        watched.note("end")
    return watched


def refusal(cstorch, torch, family, spec, tags):
    """The type and the first line of what a schedule raises when it is made."""
    groups = [{"params": [torch.nn.Parameter(torch.ones(1))], "tags": tag} for tag in "ab"]
    optimizer = cstorch.optim.SGD(groups, **GIVEN)
    try:
        make(families(cstorch)[family], spec, optimizer, tags)
    except Exception as e:
        # The tags of the groups are a set, whose order is any.
        return [type(e).__name__, str(e).splitlines()[0].partition("Available tags")[0]]
    return None


def in_child(function, *args):
    """What a function returns in a process of its own: a backend is one for each process."""
    path = pathlib.Path(tempfile.mkstemp()[1])
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        path.write_text(json.dumps(function(*args)))
        os._exit(0)
    assert os.wait()[1] == 0, args
    return json.loads(path.read_text())


def recorded(kind, specs, use=""):
    """What the package shows of schedules on one backend."""
    torch, cstorch = importlib.import_module("torch"), importlib.import_module("cerebras.pytorch")
    warnings.filterwarnings("ignore")
    cstorch.backend(kind, artifact_dir=tempfile.mkdtemp(), **({"validate_only": True} if kind == "CSX" else {}))
    watched = watch(cstorch, torch, specs, use)
    return {"seen": watched.seen, "kinds": watched.kinds}


def recorded_refusals():
    """What the package raises."""
    torch, cstorch = importlib.import_module("torch"), importlib.import_module("cerebras.pytorch")
    cstorch.backend("CPU", artifact_dir=tempfile.mkdtemp())
    return {f"{f}/{n}": refusal(cstorch, torch, f, *case) for f in GIVEN for n, case in REFUSED.items()}


def offsets(seen):
    """How many steps each place is ahead, and the rates of each schedule from the first step to behind the last."""
    rates = {name: [seen["made.group"][name][0], *seen["loop after.group"][name]] for name in seen["made.group"]}
    ahead = {}
    for place, values in seen.items():
        # A place is as far ahead for all schedules.
        fits = [by for by in (0, 1) if all(equal(v, steps_at(place, rates[n], by)) for n, v in values.items())]
        ahead[place] = fits[0]
    return ahead, rates


def steps_at(place, rates, by):
    """What a place shows in the steps in which it is reached, if it is some steps ahead."""
    if place.startswith(("made", "end")):
        return [rates[0 if place.startswith("made") else -1]]
    every = 2 if place.startswith("state dict") else 1
    return rates[:-1][every - 1 :: every] if not by else rates[1:][every - 1 :: every]


def equal(found, wanted):
    """Whether two lists have the same values; one that is no number is equal to itself."""
    pairs = zip(found, wanted, strict=True)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)


def same(values):
    """The one value of a dict whose values are all equal."""
    (value,) = set(values.values())
    return value


def of_both(rates):
    """Values by schedule, which are those of both families."""
    found = {name.partition("/")[2]: values for name, values in rates.items()}
    assert all(equal(values, found[name.partition("/")[2]]) for name, values in rates.items())
    return found


def together(seen):
    """The places that show the same, with what they show."""
    groups = []
    for place, values in seen.items():
        known = next((group for group in groups if group["shown"] == of_both(values)), None)
        if known is None:
            groups.append({"places": [place], "shown": of_both(values)})
        else:
            known["places"].append(place)
    return groups


def main():
    cpu = in_child(recorded, "CPU", SCHEDULES)
    csx = in_child(recorded, "CSX", SCHEDULES)
    ahead, rates = offsets(cpu["seen"])
    answers = {
        "source": "cerebras_pytorch 2.10.0",
        "rates": of_both(rates),
        "ahead": ahead,
        "kinds": {place: same(kinds) for place, kinds in csx["kinds"].items()},
        "uses": {name: together(in_child(recorded, "CPU", USED, use)["seen"]) for name, use in USES.items()},
        "refused": in_child(recorded_refusals),
    }
    # A list of numbers is one line.
    text = re.sub(r"\[[^][{}\"]*\]", lambda m: " ".join(m[0].split()), json.dumps(answers, indent=1))
    (HERE / "cstorch_rates.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
