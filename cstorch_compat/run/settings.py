"""The effect of each setting of a run, and the message that lists settings without an effect.

Settings without an effect are accepted, so that scripts run unchanged. They are listed on stderr when the first loop
begins.
"""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from cstorch_compat.run import process
from cstorch_compat.run.compiler_settings import DebugArgs, is_empty
from cstorch_compat.run.setting_checks import ExploredSizes

NO_EFFECT = ""
"""The entry of a setting that has no effect here."""
_CLUSTER_EFFECTS = {
    "mgmt_address": NO_EFFECT,
    "mgmt_namespace": NO_EFFECT,
    "credentials_path": NO_EFFECT,
    "num_csx": "systems that share a batch, each with workers",
    "max_wgt_servers": NO_EFFECT,
    "max_act_per_csx": NO_EFFECT,
    "num_workers_per_csx": "worker processes of each system",
    "cbcore_image": NO_EFFECT,
    "job_labels": NO_EFFECT,
    "job_priority": NO_EFFECT,
    "job_time_sec": NO_EFFECT,
    "mount_dirs": NO_EFFECT,
    "python_paths": "folders from which workers import modules",
    "automount": NO_EFFECT,
    "mount_all": NO_EFFECT,
    "disable_mount_check": NO_EFFECT,
    "disable_version_check": NO_EFFECT,
    "workflow_id": NO_EFFECT,
    "notifications": NO_EFFECT,
}
_STEP_EFFECTS = {
    "num_steps": "steps of the loop",
    "checkpoint_steps": "steps after which state can be fetched",
    "activation_steps": NO_EFFECT,
    "profiler_activities": "the rates that the profiler of the executor records",
    "additional_activities": NO_EFFECT,
    "cs_config": "the settings of CSConfig",
    "writer": "the file of summaries",
    "listeners": NO_EFFECT,
    "micro_batch_size": "the flag performance.micro_batch_size",
}
_FOLDER_EFFECTS = {
    "artifact_dir": "the folder for texts and rates of each execution",
    "compile_dir": "the folder for compiled kernels",
    "compile_only": "the run stops after its first step is planned",
    "validate_only": "the run stops after its first step is lowered",
}

EFFECTS: Mapping[str, Mapping[str, str]] = {
    "flags": {
        "precision.optimization_level": "the precision of matrix products in plans",
        "performance.micro_batch_size": "the size of micro-batches in plans",
        "performance.transfer_processes": NO_EFFECT,
        "performance.max_transfer_bytes": NO_EFFECT,
        "performance.compress_weights": NO_EFFECT,
        "performance.use_speculative_optimizers": NO_EFFECT,
        "cluster.auto_taint": NO_EFFECT,
        "debug.debug_args": NO_EFFECT,
        "debug.ini": NO_EFFECT,
        "debug.lazy_initialization": "whether state may change between two executions",
        "debug.drop_data": NO_EFFECT,
        "debug.skip_weight_init": NO_EFFECT,
        "debug.optimize_initialization": NO_EFFECT,
        "debug.log_initialization": NO_EFFECT,
        "debug.retrace_every_iteration": "whether the body of a step runs in each step",
        "debug.implicit_cast_cb16_to_fp32": "whether closures may take cbfloat16",
        "debug.check_constraints": NO_EFFECT,
        "debug.save_gpv": NO_EFFECT,
        "debug.op_definition_module": NO_EFFECT,
        "debug.skip_connectivity_check": NO_EFFECT,
        "debug.fabric_type_blacklist": NO_EFFECT,
        "debug.act_memory_gi": NO_EFFECT,
        "debug.chf_memory_gi": NO_EFFECT,
        "debug.cmd_memory_gi": NO_EFFECT,
        "debug.compile_crd_memory_gi": NO_EFFECT,
        "debug.execute_crd_memory_gi": NO_EFFECT,
        "debug.wgt_memory_gi": NO_EFFECT,
        "debug.wrk_memory_gi": NO_EFFECT,
        "storage.s3.profile": NO_EFFECT,
    },
    "ClusterConfig": _CLUSTER_EFFECTS,
    "CSConfig": {
        **_CLUSTER_EFFECTS,
        "debug_args": NO_EFFECT,
        "transfer_processes": NO_EFFECT,
        "fabric_type_blacklist": NO_EFFECT,
        "precision_opt_level": "the flag precision.optimization_level",
    },
    "backend": {
        **_FOLDER_EFFECTS,
        "cluster_config": "the settings of ClusterConfig",
        "mixed_precision": NO_EFFECT,
        "drop_data": NO_EFFECT,
        "max_checkpoints": NO_EFFECT,
        "log_initialization": NO_EFFECT,
        "use_cs_grad_accum": "whether micro_batch_size has an effect",
        "micro_batch_size": "the flag performance.micro_batch_size",
        "retrace_every_iteration": "the flag debug.retrace_every_iteration",
    },
    "DataExecutor": {"dataloader": "the batches of the loop", **_STEP_EFFECTS},
    "DataLoader": {
        "input_fn": "the loader of each worker",
        "num_steps": "steps of the loop",
        "max_steps": "the last step of the loop",
        "num_epochs": "passes over the loader",
        "steps_per_epoch": "steps of a pass",
        "initial_step": "the step that max_steps is counted from",
    },
    "configure": {
        "model_dir": NO_EFFECT,
        "compile_dir": "the folder for compiled kernels",
        "compile_only": "the run stops after its first step is planned",
        "validate_only": "the run stops after its first step is lowered",
        "checkpoint_steps": "steps after which state can be fetched",
        "num_csx": "systems that share a batch, each with workers",
        "max_wgt_servers": NO_EFFECT,
        "mount_dirs": NO_EFFECT,
        "python_paths": "folders from which workers import modules",
        "transfer_processes": NO_EFFECT,
        "num_workers_per_csx": "worker processes of each system",
        "job_labels": NO_EFFECT,
        "max_act_per_csx": NO_EFFECT,
        "seed": "the seed of random numbers",
        "mgmt_address": NO_EFFECT,
        "credentials_path": NO_EFFECT,
        "debug_args": NO_EFFECT,
        "execution_strategy": NO_EFFECT,
        "job_time_sec": NO_EFFECT,
        "disable_version_check": NO_EFFECT,
    },
    "initialize": {
        "cs_ip": NO_EFFECT,
        "service_workdir": NO_EFFECT,
        "compile_dir": "the folder for compiled kernels",
        "compile_only": "the run stops after its first step is planned",
        "appliance": NO_EFFECT,
        "use_cbfloat16": "the data type of matrix products",
        "use_appliance_data": NO_EFFECT,
    },
    "compile": {"fabric_config_file": NO_EFFECT, "validate_only": "the step is lowered and not planned"},
    "dataloader": {"torch_dataloader": "the batches of the loop", "use_parallel_loader": NO_EFFECT},
}
"""The effect of each setting, by the function or object that takes it and the setting's name."""

_SEARCH_WARNING = (
    'micro_batch_size "explore" works only with compile_only=True on the system; this run uses the fastest size found'
)
_noted_settings = process.RunLocal[dict[str, None]](dict)
"""Settings without an effect that were passed to a call, in order."""
_listed_settings = process.RunLocal[dict[str, None]](dict)
"""Settings that were printed already."""


def note_without_effect(owner: str, values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
    """Record the settings in `values` that have no effect and differ from their default.

    `owner` is the key of the settings in `EFFECTS`. `defaults` maps names to defaults, which are None if absent.
    """
    for name, value in values.items():
        if not EFFECTS[owner].get(name) and value != (defaults or {}).get(name):
            _noted_settings.value[name] = None


def print_unused() -> None:
    """Print one line on stderr with the settings that were set, have no effect, and were not printed before.

    A second line warns, once, if the run executes steps and micro_batch_size is "explore", which the system refuses.
    """
    names = [
        name
        for name in dict.fromkeys((*_noted_settings.value, *_unused_wafer_settings()))
        if name not in _listed_settings.value
    ]
    if names:
        _listed_settings.value.update(dict.fromkeys(names))
        print(f"lazywafer: these settings have no effect: {', '.join(names)}", file=sys.stderr)
    if is_micro_batch_search() and _SEARCH_WARNING not in _listed_settings.value:
        _listed_settings.value[_SEARCH_WARNING] = None
        print(f"lazywafer: {_SEARCH_WARNING}", file=sys.stderr)


def is_micro_batch_search() -> bool:
    """Return whether micro_batch_size is "explore" in a CSX run that executes its steps."""
    asks = isinstance(process.RUN.flags.performance.micro_batch_size, ExploredSizes)
    # Plans and checks, which set `session`, execute nothing.
    return asks and process.use_cs() and process.current_backend().is_e2e_execution and not process.RUN.options.session


def _unused_wafer_settings() -> Iterator[str]:
    """Yield the flags and the fields of the ClusterConfig that are set and have no effect. Yield nothing on the CPU."""
    if not process.use_cs():
        return
    for path, value, default in process.RUN.flags.walk():
        if not EFFECTS["flags"][path] and _is_set(value, default):
            yield path.rpartition(".")[2]
    config = process.current_backend().cluster_config
    # Scripts may pass another object with the same fields, which has no known defaults.
    if dataclasses.is_dataclass(config) and type(config).__name__ in EFFECTS:
        kind: Any = type(config)
        default_config = kind()
        for name, effect in EFFECTS[type(config).__name__].items():
            if not effect and _is_set(getattr(config, name), getattr(default_config, name)):
                yield name


def _is_set(value: Any, default: Any) -> bool:
    """Return whether a setting differs from its default. An empty DebugArgs tree counts as not set."""
    return not is_empty(value) if isinstance(value, DebugArgs) else bool(value != default)
