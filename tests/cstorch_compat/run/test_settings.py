"""Every setting works, is refused with the error of release 2.10, or is listed as one without an effect."""

import dataclasses
import inspect

import pytest

from cstorch_compat.cerebras.pytorch.distributed.cluster_config import ClusterConfig
from cstorch_compat.cerebras.pytorch.utils.data.data_executor import DataExecutor
from cstorch_compat.cerebras.pytorch.utils.data.dataloader import DataLoader
from cstorch_compat.cerebras.pytorch.utils.data.synthetic import compute_num_steps
from cstorch_compat.generations.cbtorch import session
from cstorch_compat.generations.cbtorch.session import initialize
from cstorch_compat.generations.early import backends, data_executors
from cstorch_compat.generations.early.configure import configure
from cstorch_compat.generations.early.cs_config import CSConfig
from cstorch_compat.run import process, settings
from cstorch_compat.run.backend import BACKEND_FACTORIES
from lazytensor.errors import LazyError


@pytest.fixture(autouse=True)
def new_run():
    before = {**vars(process.RUN), "slots": dict(process.RUN.slots)}
    process.RUN.reset()
    yield
    process.RUN.reset()
    vars(process.RUN).update(before)


def parameters(*functions):
    """The names of the parameters that a script can give, of all functions together."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    every = [p for f in functions for p in inspect.signature(f).parameters.values()]
    return {p.name for p in every if p.kind not in kinds} - {"self", "options", "flags"}


EXECUTORS = [v for n, v in vars(data_executors).items() if n.startswith("DataExecutor_")]
OLDER_BACKENDS = [
    name
    for release in (backends.SETTINGS_1_9, backends.SETTINGS_2_0, backends.SETTINGS_2_2)
    for names in release.values()
    for name in names
]
SIGNATURES = {
    "flags": {path for path, _, _ in process.RUN.flags.walk()},
    "ClusterConfig": {f.name for f in dataclasses.fields(ClusterConfig)},
    "CSConfig": {f.name for f in dataclasses.fields(CSConfig)},
    "backend": {*parameters(BACKEND_FACTORIES["CSX"], BACKEND_FACTORIES["CPU"]), *OLDER_BACKENDS},
    "DataExecutor": parameters(DataExecutor, *EXECUTORS),
    "DataLoader": {*parameters(DataLoader), *data_executors.STEP_ARGUMENTS},
    "configure": parameters(configure),
    "initialize": parameters(initialize),
    "compile": parameters(session.compile),
    "dataloader": parameters(session.dataloader),
}


@pytest.mark.parametrize("owner", settings.EFFECTS)
def test_table_has_every_setting_that_a_script_can_give(owner):
    assert set(settings.EFFECTS[owner]) == SIGNATURES[owner]


def test_configure_shows_the_parameters_of_its_documentation():
    # The page "cstorch API" of release 1.8 lists these, in this order.
    documented = """model_dir compile_dir compile_only validate_only checkpoint_steps num_csx max_wgt_servers mount_dirs
        python_paths transfer_processes num_workers_per_csx job_labels max_act_per_csx""".split()
    assert list(inspect.signature(configure).parameters)[: len(documented)] == documented
    defaults = [inspect.signature(configure).parameters[name].default for name in documented]
    assert defaults == ["./", "/opt/cerebras/cached_compile", False, False, 0, 1, 24, None, None, 5, 1, None, 1]


def loader():
    process.make_backend("CPU")
    return DataLoader(lambda: [1, 2, 3, 4])


def set_flag(path, value):
    group, _, name = path.rpartition(".")
    target = process.RUN.flags
    for part in group.split("."):
        target = getattr(target, part)
    setattr(target, name, value)


CALLS = {
    "flag": set_flag,
    "cluster": lambda name, value: ClusterConfig(**{name: value}),
    "changed cluster": lambda name, value: setattr(ClusterConfig(), name, value),
    "old cluster": lambda name, value: CSConfig(**{name: value}),
    "executor": lambda name, value: DataExecutor(loader(), **{"num_steps": 4, name: value}),
    "steps": lambda name, value: compute_num_steps([1, 2, 3], **{"num_steps": 2, name: value}),
    "epochs": lambda name, value: compute_num_steps([1, 2, 3], **{"num_epochs": 2, name: value}),
    "CSX": lambda name, value: BACKEND_FACTORIES["CSX"](process.RUN.options, process.RUN.flags, **{name: value}),
    "CPU": lambda name, value: BACKEND_FACTORIES["CPU"](process.RUN.options, process.RUN.flags, **{name: value}),
    "backend 1.9": lambda name, value: backends.backend_1_9("CSX", **{name: value}),
    "backend 2.0": lambda name, value: backends.backend_2_0("CSX", **{"use_cs_grad_accum": True, name: value}),
    "configure": lambda name, value: configure(**{name: value}),
    "initialize": lambda name, value: initialize(**{name: value}),
}
"""What a setting is given to."""

COUNTS = (-1, 2.5, 2.0, "2", [])
REFUSED = [
    # Release 2.10 was asked: the type of its error.
    *(("flag", "precision.optimization_level", v, ValueError) for v in (-1, 3)),
    *(("flag", "precision.optimization_level", v, TypeError) for v in (None, 2.5, "1", [])),
    *(("flag", "performance.micro_batch_size", v, ValueError) for v in (0, -1, False, {}, {"auto": {}})),
    *(("flag", "performance.micro_batch_size", v, TypeError) for v in (2.5, 2.0, "none", "", b"auto", (1,), [])),
    *(
        ("flag", "performance.micro_batch_size", {"explore": v}, TypeError)
        for v in ({"min": 2.5}, {"min": None}, {"max": "8"}, 3, None)
    ),
    ("flag", "performance.micro_batch_size", {"explore": {"min": 1}, "auto": 1}, TypeError),
    *(("flag", "performance.transfer_processes", v, ValueError) for v in (0, -1, False)),
    *(("flag", "performance.transfer_processes", v, TypeError) for v in (None, 2.5, "5")),
    *(("flag", "performance.max_transfer_bytes", v, ValueError) for v in (-1, 1 << 31)),
    ("flag", "performance.max_transfer_bytes", 2.5, TypeError),
    *(
        ("flag", path, v, TypeError)
        for path in ("performance.compress_weights", "cluster.auto_taint", "debug.lazy_initialization")
        for v in (None, 0, 1, "True")
    ),
    *(("flag", "debug.fabric_type_blacklist", v, TypeError) for v in ("cs2", ("cs2",), ["cs1"], [1], {}, 3)),
    *(("flag", "debug.wgt_memory_gi", v, TypeError) for v in (2.5, "3", [])),
    *(("flag", name, v, TypeError) for name in ("debug.debug_args", "debug.ini") for v in (None, 3, "x", [])),
    *(("flag", "debug.op_definition_module", v, TypeError) for v in (3, len)),
    *(("flag", "storage.s3.profile", v, TypeError) for v in (3, [])),
    ("flag", "performance.nothing", 1, AttributeError),
    *(
        (owner, name, v, ValueError)
        for owner in ("cluster", "changed cluster", "old cluster")
        for name in ("num_csx", "max_wgt_servers", "max_act_per_csx", "num_workers_per_csx")
        for v in COUNTS
    ),
    *(("cluster", "mgmt_address", v, ValueError) for v in ("", "host", "host:", ":1", "host:port")),
    ("cluster", "mgmt_address", 3, TypeError),
    *(("cluster", "job_labels", v, ValueError) for v in (["a"], ["a=b=c"], ["=b"], ["a="], ["a b=c"], "a=b", {"a": 1})),
    ("cluster", "job_labels", 3, TypeError),
    *(("cluster", "job_priority", v, ValueError) for v in ("p4", "P1", "", None, 1, 0, 5, 2.5, True)),
    *(("cluster", "job_time_sec", v, ValueError) for v in (0, -1, 2.5, "3", "")),
    *(("cluster", name, ["not there"], ValueError) for name in ("mount_dirs", "python_paths")),
    *(("cluster", name, v, TypeError) for name in ("mount_dirs", "python_paths") for v in ("/", 3, ("/",), [None])),
    *(("cluster", "notifications", v, TypeError) for v in (None, 3, "x", ["x"], [None])),
    ("cluster", "notifications", [{}], ValueError),
    ("cluster", "nothing", 1, TypeError),
    *(("executor", "num_steps", v, RuntimeError) for v in (0, -1, False, 0.5)),
    *(("executor", "num_steps", v, ValueError) for v in (2.5, float("nan"), float("inf"))),
    *(("executor", "num_steps", v, TypeError) for v in ("3", [])),
    ("executor", "checkpoint_steps", -3, RuntimeError),
    *(("executor", "checkpoint_steps", v, ValueError) for v in (2.5, 2.0, "2", [], float("inf"))),
    *(("executor", "activation_steps", v, RuntimeError) for v in (0, -3, False)),
    *(("executor", "activation_steps", v, TypeError) for v in (2.5, "2", [])),
    *(("executor", name, 1, TypeError) for name in ("micro_batch_size", "cs_config", "writer", "nothing")),
    *(("epochs", name, v, ValueError) for name in ("num_epochs", "steps_per_epoch") for v in (0, *COUNTS)),
    *(("steps", name, v, ValueError) for name in ("num_steps", "max_steps", "num_epochs") for v in (0, *COUNTS)),
    *(("steps", name, v, ValueError) for name in ("initial_step", "grad_accum_steps") for v in (None, *COUNTS)),
    ("steps", "num_epochs", 1, ValueError),
    *(("CSX", "cluster_config", v, AttributeError) for v in ({}, 3, "x")),
    ("CSX", "cluster_config", ClusterConfig(num_csx=0), ValueError),
    ("CSX", "artifact_dir", 3, TypeError),
    *(("CSX", name, 1, TypeError) for name in ("drop_data", "micro_batch_size", "nothing")),
    ("CPU", "mixed_precision", True, ValueError),
    ("CPU", "artifact_dir", 3, TypeError),
    *(("CPU", name, None, TypeError) for name in ("compile_dir", "cluster_config")),
    # There is no release to ask here.
    *(("flag", "performance.micro_batch_size", {"explore": v}, ValueError) for v in ({"min": 0}, {"min": 4, "max": 2})),
    ("old cluster", "transfer_processes", 0, ValueError),
    ("old cluster", "transfer_processes", 2.5, TypeError),
    ("old cluster", "precision_opt_level", 3, ValueError),
    *((name, "max_checkpoints", v, ValueError) for name in ("backend 1.9", "backend 2.0") for v in (0, -1)),
    *((name, "drop_data", 1, TypeError) for name in ("backend 1.9", "backend 2.0")),
    ("backend 2.0", "micro_batch_size", -2, ValueError),
    ("backend 2.0", "log_initialization", "yes", TypeError),
    ("configure", "checkpoint_steps", -3, ValueError),
    *(("configure", "checkpoint_steps", v, TypeError) for v in (2.5, "2")),
    *(("configure", name, v, TypeError) for name in ("compile_only", "validate_only") for v in ("no", 1, [])),
    *(("configure", name, 3, TypeError) for name in ("model_dir", "compile_dir", "job_labels", "mount_dirs")),
    *(("configure", name, v, ValueError) for name in ("num_csx", "max_wgt_servers") for v in COUNTS),
    ("configure", "transfer_processes", 0, ValueError),
    ("configure", "python_paths", ["not there"], ValueError),
    ("configure", "seed", 2.5, TypeError),
    ("configure", "nothing", 1, TypeError),
    *(("initialize", name, v, TypeError) for name in ("compile_only", "use_cbfloat16") for v in ("no", 1)),
    ("initialize", "compile_dir", 3, TypeError),
]


@pytest.mark.parametrize(("owner", "name", "value", "error"), REFUSED)
def test_value_is_refused_with_its_type_of_error(owner, name, value, error):
    with pytest.raises(error) as raised:
        CALLS[owner](name, value)
    # Scripts may compare types. Those of unknown names and of paths are Python's own, without a line and a hint.
    ours = raised.value if isinstance(raised.value, LazyError) else raised.value.__cause__
    assert not isinstance(ours, LazyError) or (ours.where and ours.hint)
    assert owner not in ("flag", "cluster", "executor", "steps") or type(raised.value) is error


TAKEN = [
    *(("flag", "performance.micro_batch_size", v) for v in (None, 1, 7, "auto", "explore", {"explore": {}})),
    *(("flag", "performance.micro_batch_size", {"explore": v}) for v in ({"min": 2}, {"max": 8}, {"min": 3, "max": 3})),
    *(("flag", "performance.max_transfer_bytes", v) for v in (0, (1 << 31) - 1024)),
    *(("flag", name, v) for name in ("debug.debug_args", "debug.ini") for v in ({}, {"a": 1})),
    *(("cluster", name, None) for name in ("num_csx", "max_wgt_servers", "job_labels", "mount_dirs", "python_paths")),
    *(("cluster", "mgmt_address", v) for v in (None, "host:443", "1.2.3.4:80", "[::1]:80")),
    *(("cluster", "job_priority", v) for v in ("p1", "p2", "p3", 2, 3, 4)),
    *(("cluster", "job_labels", v) for v in (["a=b"], ("a=b", "c=d-e_f.g"), "")),
    *(("executor", "num_steps", v) for v in (None, 1, True, 2.0)),
    *(("executor", "checkpoint_steps", v) for v in (None, 0, 1, 9, True)),
    *(("executor", "activation_steps", v) for v in (None, 1, 9)),
    ("old cluster", "transfer_processes", None),
    ("configure", "checkpoint_steps", 100),
    ("initialize", "a_setting_of_an_older_release", 1),
]


@pytest.mark.parametrize(("owner", "name", "value"), TAKEN)
def test_value_is_taken(owner, name, value):
    CALLS[owner](name, value)


def test_a_run_cannot_stop_in_two_places():
    with pytest.raises(ValueError, match="exclude each other"):
        configure(compile_only=True, validate_only=True)
    with pytest.raises(ValueError, match="exclude each other"):
        process.make_backend("CSX", compile_only=True, validate_only=True)


@pytest.mark.parametrize("stop", ["validate_only", "compile_only"])
def test_fewer_samples_than_systems_are_refused_whether_or_not_the_step_runs(script, stop):
    done = script(
        f"""
cluster = cstorch.distributed.ClusterConfig(num_csx=5)
backend = cstorch.backend("CSX", {stop}=True, cluster_config=cluster)
try:
    for batch in cstorch.utils.data.DataExecutor(loader(rows=4), num_steps=1):
        pass
except ValueError as e:
    print(type(e).__name__, e)
"""
    )
    assert done.stdout.startswith("ValueError") and "4 samples cannot be divided among 5 systems" in done.stdout


def test_refused_configuration_leaves_the_process_free_for_a_right_one():
    with pytest.raises(ValueError, match="checkpoint_steps"):
        configure(checkpoint_steps=-3)
    configure(checkpoint_steps=3)


def test_a_number_of_steps_with_a_point_is_refused_where_checkpoint_steps_are_counted():
    with pytest.raises(ValueError, match="must be an integer"):
        DataExecutor(loader(), num_steps=2.0, checkpoint_steps=1)


def test_bounds_of_a_search_read_as_explore():
    process.RUN.flags.performance.micro_batch_size = {"explore": {"min": 2, "max": 4}}
    assert process.RUN.flags.performance.micro_batch_size == "explore"
    assert "micro_batch_size=explore," in str(process.RUN.flags.performance)


TRAINING = """
model = MLP()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)

@cstorch.trace
def step(batch):
    loss = F.cross_entropy(compiled(batch[0]), batch[1].long())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

@cstorch.step_closure
def log(loss):
    loss.item()

for _ in range(2):
    for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=2, activation_steps=2):
        log(step(batch))
"""
LINE = "these settings have no effect: "


def lines_of(done):
    assert done.returncode == 0, done.stderr
    return [line.partition(LINE)[2] for line in (done.stdout + done.stderr).splitlines() if LINE in line]


def test_settings_without_an_effect_are_listed_in_one_line_of_a_run(script):
    done = script(
        """
cstorch.backends.csx.debug.drop_data = True
cstorch.backends.csx.debug.ini.some_switch = True
cstorch.backends.csx.debug.debug_args.only_read
cstorch.backends.csx.precision.optimization_level = 2
cstorch.backends.csx.performance.transfer_processes = 5
cluster = cstorch.distributed.ClusterConfig(max_wgt_servers=4, job_priority="p1", job_labels=[], num_csx=1)
backend = cstorch.backend("CSX", cluster_config=cluster)
"""
        + TRAINING
    )
    assert lines_of(done) == ["activation_steps, ini, drop_data, max_wgt_servers, job_priority"]


def test_a_run_with_settings_that_work_lists_none(script):
    done = script(
        "cstorch.backends.csx.precision.optimization_level = 2\n"
        + 'backend = cstorch.backend("CSX", "logs", compile_dir="kernels")\n'
        + TRAINING.replace(", activation_steps=2", ", checkpoint_steps=1")
    )
    assert lines_of(done) == []


def test_flags_of_the_wafer_are_not_listed_on_the_cpu(script):
    done = script('cstorch.backends.csx.debug.drop_data = True\nbackend = cstorch.backend("CPU")\n' + TRAINING)
    assert lines_of(done) == ["activation_steps"]


def test_the_first_execution_locks_the_systems_and_workers_of_older_releases(script):
    done = script(
        """
import torch
import cerebras_pytorch as cstorch
cstorch.backend("CSX")
compiled = cstorch.compile(torch.nn.Linear(2, 1))

@cstorch.trace
def step(batch):
    return compiled(batch).sum()

@cstorch.step_closure
def log(loss):
    print(loss.shape)

loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(4, 2)])
for systems in (1, 1, 2):
    config = cstorch.utils.CSConfig(num_csx=systems)
    try:
        for batch in cstorch.utils.data.DataExecutor(loader, num_steps=1, cs_config=config):
            log(step(batch))
    except RuntimeError as e:
        print(e)
""",
        preamble="",
    )
    assert done.returncode == 0, done.stderr
    assert "num_csx is 2, but the first execution had 1" in done.stdout.splitlines()[2]


def test_older_releases_list_their_settings_too(script):
    done = script(
        """
import torch
import cerebras_pytorch as cstorch
backend = cstorch.backend("CSX", drop_data=True, max_checkpoints=3, log_initialization=True)
model = torch.nn.Linear(6, 3)
compiled = cstorch.compile(model, backend)

@cstorch.trace
def step(batch):
    return compiled(batch).sum()

@cstorch.step_closure
def log(loss):
    loss.item()

config = cstorch.utils.CSConfig(max_wgt_servers=2, transfer_processes=3)
loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(2, 6)])
for batch in cstorch.utils.data.DataExecutor(loader, num_steps=1, cs_config=config, listeners=[1]):
    log(step(batch))
""",
        preamble="",
    )
    assert lines_of(done) == ["drop_data, max_checkpoints, listeners, transfer_processes, max_wgt_servers"]
