"""The settings of a run: the effect of each, and one line that lists the settings without an effect.

`EFFECTS` has every setting that a script can give. A setting without an effect is accepted, so that scripts run
unchanged, and named on stderr when the first loop begins.
"""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from cstorch_compat.run import process
from cstorch_compat.run.compiler_settings import DebugArgs, is_empty
from cstorch_compat.run.setting_checks import Explore

NONE = ""
"""The entry of a setting without an effect here."""
_CLUSTER = {
    "mgmt_address": NONE,
    "mgmt_namespace": NONE,
    "credentials_path": NONE,
    "num_csx": "systems that share a batch, each with workers",
    "max_wgt_servers": NONE,
    "max_act_per_csx": NONE,
    "num_workers_per_csx": "worker processes of each system",
    "cbcore_image": NONE,
    "job_labels": NONE,
    "job_priority": NONE,
    "job_time_sec": NONE,
    "mount_dirs": NONE,
    "python_paths": "folders in which workers find modules",
    "automount": NONE,
    "mount_all": NONE,
    "disable_mount_check": NONE,
    "disable_version_check": NONE,
    "workflow_id": NONE,
    "notifications": NONE,
}
_STEPS = {
    "num_steps": "steps of the loop",
    "checkpoint_steps": "steps after which state can be fetched",
    "activation_steps": NONE,
    "profiler_activities": "rates that the executor's profiler follows",
    "additional_activities": NONE,
    "cs_config": "the settings of CSConfig",
    "writer": "the file that summaries go to",
    "listeners": NONE,
    "micro_batch_size": "the flag performance.micro_batch_size",
}
_FOLDERS = {
    "artifact_dir": "the folder for texts and rates of each execution",
    "compile_dir": "the folder for compiled kernels",
    "compile_only": "the run stops after its first step is planned",
    "validate_only": "the run stops after its first step is lowered",
}

EFFECTS: Mapping[str, Mapping[str, str]] = {
    "flags": {
        "precision.optimization_level": "the precision that products are priced at",
        "performance.micro_batch_size": "the micro-batches that a plan cuts a batch into",
        "performance.transfer_processes": NONE,
        "performance.max_transfer_bytes": NONE,
        "performance.compress_weights": NONE,
        "performance.use_speculative_optimizers": NONE,
        "cluster.auto_taint": NONE,
        "debug.debug_args": NONE,
        "debug.ini": NONE,
        "debug.lazy_initialization": "whether state may change between two executions",
        "debug.drop_data": NONE,
        "debug.skip_weight_init": NONE,
        "debug.optimize_initialization": NONE,
        "debug.log_initialization": NONE,
        "debug.retrace_every_iteration": "whether the body of a step runs in each step",
        "debug.implicit_cast_cb16_to_fp32": "whether closures may take cbfloat16",
        "debug.check_constraints": NONE,
        "debug.save_gpv": NONE,
        "debug.op_definition_module": NONE,
        "debug.skip_connectivity_check": NONE,
        "debug.fabric_type_blacklist": NONE,
        "debug.act_memory_gi": NONE,
        "debug.chf_memory_gi": NONE,
        "debug.cmd_memory_gi": NONE,
        "debug.compile_crd_memory_gi": NONE,
        "debug.execute_crd_memory_gi": NONE,
        "debug.wgt_memory_gi": NONE,
        "debug.wrk_memory_gi": NONE,
        "storage.s3.profile": NONE,
    },
    "ClusterConfig": _CLUSTER,
    "CSConfig": {
        **_CLUSTER,
        "debug_args": NONE,
        "transfer_processes": NONE,
        "fabric_type_blacklist": NONE,
        "precision_opt_level": "the flag precision.optimization_level",
    },
    "backend": {
        **_FOLDERS,
        "cluster_config": "the settings of ClusterConfig",
        "mixed_precision": NONE,
        "drop_data": NONE,
        "max_checkpoints": NONE,
        "log_initialization": NONE,
        "use_cs_grad_accum": "whether micro_batch_size counts",
        "micro_batch_size": "the flag performance.micro_batch_size",
        "retrace_every_iteration": "the flag debug.retrace_every_iteration",
    },
    "DataExecutor": {"dataloader": "the batches of the loop", **_STEPS},
    "DataLoader": {
        "input_fn": "the loader of each worker",
        "num_steps": "steps of the loop",
        "max_steps": "the last step of the loop",
        "num_epochs": "passes over the loader",
        "steps_per_epoch": "steps of a pass",
        "initial_step": "the step that max_steps is counted from",
    },
    "configure": {
        "model_dir": NONE,
        "compile_dir": "the folder for compiled kernels",
        "compile_only": "the run stops after its first step is planned",
        "validate_only": "the run stops after its first step is lowered",
        "checkpoint_steps": "steps after which state can be fetched",
        "num_csx": "systems that share a batch, each with workers",
        "max_wgt_servers": NONE,
        "mount_dirs": NONE,
        "python_paths": "folders in which workers find modules",
        "transfer_processes": NONE,
        "num_workers_per_csx": "worker processes of each system",
        "job_labels": NONE,
        "max_act_per_csx": NONE,
        "seed": "where random numbers begin",
        "mgmt_address": NONE,
        "credentials_path": NONE,
        "debug_args": NONE,
        "execution_strategy": NONE,
        "job_time_sec": NONE,
        "disable_version_check": NONE,
    },
    "initialize": {
        "cs_ip": NONE,
        "service_workdir": NONE,
        "compile_dir": "the folder for compiled kernels",
        "compile_only": "the run stops after its first step is planned",
        "appliance": NONE,
        "use_cbfloat16": "the type that products run in",
        "use_appliance_data": NONE,
    },
    "compile": {"fabric_config_file": NONE, "validate_only": "the step is lowered and not planned"},
    "dataloader": {"torch_dataloader": "the batches of the loop", "use_parallel_loader": NONE},
}
"""By what takes it, each setting and its effect."""

_SEARCH = (
    'micro_batch_size "explore" works only with compile_only=True on the system; this run takes the fastest size found'
)
_noted = process.Slot[dict[str, None]](dict)
"""Settings without an effect that calls have noted, in their order."""
_told = process.Slot[dict[str, None]](dict)
"""Settings that were listed."""


def note(owner: str, values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
    """Note the settings without an effect among `values` that differ from their defaults, which are None if not given.

    `owner` is the entry of `EFFECTS` that has the settings.
    """
    for name, value in values.items():
        if not EFFECTS[owner].get(name) and value != (defaults or {}).get(name):
            _noted.value[name] = None


def list_unused() -> None:
    """Print, in one line on stderr, the settings without an effect that were set and that no line has listed yet.

    Another line warns of a search for a micro-batch size in a run that executes steps, which the system refuses.
    """
    names = [name for name in dict.fromkeys((*_noted.value, *_of_wafer())) if name not in _told.value]
    if names:
        _told.value.update(dict.fromkeys(names))
        print(f"lazywafer: settings without an effect here: {', '.join(names)}", file=sys.stderr)
    if is_search_in_a_run() and _SEARCH not in _told.value:
        _told.value[_SEARCH] = None
        print(f"lazywafer: {_SEARCH}", file=sys.stderr)


def is_search_in_a_run() -> bool:
    """Return whether a run that executes its steps asks for a search for a micro-batch size."""
    asks = isinstance(process.RUN.flags.performance.micro_batch_size, Explore)
    # Nothing is executed for a plan or a check.
    return asks and process.use_cs() and process.current_backend().is_e2e_execution and not process.RUN.options.session


def _of_wafer() -> Iterator[str]:
    """Yield the flags and the fields of the cluster that are set and have no effect. On the CPU none counts."""
    if not process.use_cs():
        return
    for path, value, default in process.RUN.flags.walk():
        if not EFFECTS["flags"][path] and _is_set(value, default):
            yield path.rpartition(".")[2]
    config = process.current_backend().cluster_config
    # Scripts may pass an object of their own that has the fields.
    if dataclasses.is_dataclass(config) and type(config).__name__ in EFFECTS:
        kind: Any = type(config)
        default_config = kind()
        for name, effect in EFFECTS[type(config).__name__].items():
            if not effect and _is_set(getattr(config, name), getattr(default_config, name)):
                yield name


def _is_set(value: Any, default: Any) -> bool:
    return not is_empty(value) if isinstance(value, DebugArgs) else bool(value != default)
