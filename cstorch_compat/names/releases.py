"""The releases of the Cerebras API: which package names they use, and which names were added, changed and removed.

A name is given by its path in the package, such as "optim.configure_optimizer". A name without a row exists since
release 1.8, the first with this API. Earlier releases have cbtorch, whose modules have no rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lazytensor.core import source
from lazytensor.errors import OptionInvalid

RELEASES = tuple(f"1.{n}" for n in range(2, 10)) + tuple(f"2.{n}" for n in range(11))
"""All releases, oldest first."""
LATEST = RELEASES[-1]
"""The latest release."""
CSTORCH, CBTORCH, APPLIANCE = "cerebras.pytorch", "cerebras_torch", "cerebras.appliance"
"""The packages, by their paths in the table of mirrors."""


def parse_release(release: str) -> tuple[int, int]:
    """Return a release such as "2.10" as a pair of integers, which compare correctly.

    Raises ValueError if it is unknown.
    """
    if release not in RELEASES:
        raise OptionInvalid(
            f"the API has no release {release!r}; use one of {', '.join(RELEASES)}",
            where=source.where(),
            hint="Set the release to one of these.",
        )
    # As a string, "2.10" would sort before "2.2".
    major, minor = release.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class ReleaseRange:
    """The releases from `since` to `until`, inclusive."""

    since: str
    until: str

    def meets(self, other: "ReleaseRange") -> bool:
        """Return whether the two ranges have a release in common."""
        return parse_release(self.since) <= parse_release(other.until) and parse_release(other.since) <= parse_release(
            self.until
        )

    def __str__(self) -> str:
        return self.since if self.since == self.until else f"{self.since} to {self.until}"


LATEST_ONLY = ReleaseRange(LATEST, LATEST)
"""The range with only the latest release."""


@dataclass(frozen=True)
class Spelling:
    """The meaning of a package name in some releases: `target` is a path in the table of mirrors.

    Modules of `CSTORCH` show the names of the chosen release, other modules always the same names.
    """

    name: str
    span: ReleaseRange
    target: str


SPELLINGS = (
    Spelling("cerebras.pytorch", ReleaseRange("2.2", "2.10"), CSTORCH),
    Spelling("cerebras_pytorch", ReleaseRange("1.6", "1.9"), CBTORCH),
    Spelling("cerebras_pytorch", ReleaseRange("2.0", "2.1"), CSTORCH),
    Spelling("cerebras_pytorch.experimental", ReleaseRange("1.8", "1.9"), CSTORCH),
    Spelling("cerebras_pytorch.experimental", ReleaseRange("2.0", "2.1"), f"{CSTORCH}.experimental"),
    Spelling("cerebras_torch", ReleaseRange("1.2", "1.8"), CBTORCH),
    Spelling("cerebras.framework.torch", ReleaseRange("1.2", "1.9"), CBTORCH),
    Spelling(
        "cerebras.models.common.pytorch.optim.AdamW",
        ReleaseRange("1.2", "1.9"),
        "cerebras.models.common.pytorch.optim.AdamW",
    ),
    Spelling("cerebras_tensorflow", ReleaseRange("1.6", "1.9"), "cerebras_tensorflow"),
    Spelling("cerebras_appliance", ReleaseRange("1.6", "2.1"), APPLIANCE),
    Spelling("cerebras.appliance", ReleaseRange("2.2", "2.10"), APPLIANCE),
)
"""The names under which scripts import the packages."""
DEFAULT_RANGES = {
    "cerebras.pytorch": LATEST_ONLY,
    "cerebras_pytorch": ReleaseRange("2.0", "2.1"),
    "cerebras_pytorch.experimental": ReleaseRange("1.8", "1.9"),
}
"""The releases of a spelling with several meanings if the user chose no release."""


def find_spelling(name: str, api: str | None) -> tuple[Spelling, ReleaseRange] | None:
    """Return the meaning of a module name in release `api`, and the releases whose names the module shows.

    `api` None stands for the default releases. Returns None if the name has no meaning in that release.
    """
    # The longest spelling wins: in 1.8 cerebras_pytorch.experimental was the new API and cerebras_pytorch the old one.
    best = max((s.name for s in SPELLINGS if name == s.name or name.startswith(s.name + ".")), key=len, default=None)
    # A spelling has one row per meaning. Use the first row that covers the wanted releases.
    for row in (s for s in SPELLINGS if s.name == best):
        wanted = ReleaseRange(api, api) if api else DEFAULT_RANGES.get(row.name, row.span)
        if row.span.meets(wanted):
            return row, wanted
    return None


def is_parent_package(name: str) -> bool:
    """Return whether a name is only a parent of packages, such as "cerebras.framework"."""
    return any(s.name.startswith(name + ".") for s in SPELLINGS) and all(s.name != name for s in SPELLINGS)


def find_spellings(name: str) -> list[Spelling]:
    """Return all meanings of a module name, in any release."""
    return [s for s in SPELLINGS if name == s.name or name.startswith(s.name + ".")]


@dataclass(frozen=True)
class ReleaseRow:
    """A name that does not exist in every release, or not with the same meaning.

    path: the name
    since, until: the releases of this row
    target: "module:name" in this package, or "" if it is the same as in the latest release
    instead: the hint for later releases
    """

    path: str
    since: str = "1.8"
    until: str = LATEST
    target: str = ""
    instead: str = ""

    @property
    def span(self) -> ReleaseRange:
        """The releases of this row."""
        return ReleaseRange(self.since, self.until)


def _removal_hint(what: str, call: str) -> str:
    """Return the message of the original for a removed summary function."""
    return (
        f"cstorch.{what} is now removed. Please create a SummaryWriter and write to it directly:\n\n"
        "\timport cerebras.pytorch.utils.tensorboard\n\n\twriter = tensorboard.SummaryWriter(log_dir='./log_dir')\n"
        f"\twriter.{call}(...)\n\nNote, writing to a SummaryWriter should only occur inside a step closure."
    )


_CLUSTER_HINT = (
    'Pass a "cstorch.distributed.ClusterConfig" to the backend instead:\n\n\tbackend = cstorch.backend(\n\t\t"CSX", '
    "cluster_config=cstorch.distributed.ClusterConfig(...)\n\t)"
)
_TENSORBOARD_HINT = (
    "cstorch.utils.tensorboard must be imported before it can be accessed:\n\n"
    "\timport cerebras.pytorch.utils.tensorboard"
)
_CONFIGURE_HINT = 'Write `backend = cstorch.backend("CSX", ...)` and `DataExecutor(dataloader, checkpoint_steps=...)`.'
_SPARSITY_HINT = (
    "Write `sparsity = cstorch.sparse.configure(...)`, then `model.apply(sparsity)` and `optimizer.apply(sparsity)`."
)
_CLASS_HINT = "Create the {0} from its class, such as cstorch.optim.{1}."

RELEASE_ROWS = (
    ReleaseRow("configure", until="1.8", target="generations.early.configure:configure", instead=_CONFIGURE_HINT),
    ReleaseRow("compile", until="1.9", target="generations.early.configure:compile"),
    ReleaseRow("compile", since="2.0"),
    ReleaseRow(
        "compile_step",
        until="1.9",
        target="generations.early.configure:compile_step",
        instead="Use cstorch.trace.",
    ),
    ReleaseRow("trace", since="2.0"),
    ReleaseRow("backend", "1.9", "1.9", "generations.early.backends:backend_1_9"),
    ReleaseRow("backend", "2.0", "2.1", "generations.early.backends:backend_2_0"),
    ReleaseRow("backend", "2.2", "2.2", "generations.early.backends:backend_2_2"),
    ReleaseRow("backend", "2.3"),
    ReleaseRow("checkpoint_closure", since="1.9"),
    ReleaseRow("current_executor", since="2.1"),
    ReleaseRow("pol", since="2.1"),
    ReleaseRow("current_pol", since="2.1"),
    ReleaseRow("manual_seed", "2.0", "2.1", "generations.early.backends:manual_seed", "Call torch.manual_seed."),
    ReleaseRow(
        "scalar_summary", "1.8", "1.8", "generations.early.summaries:scalar_summary", "Call cstorch.summarize_scalar."
    ),
    ReleaseRow(
        "save_summaries",
        "1.8",
        "1.8",
        "generations.early.summaries:save_summaries",
        "Pass a writer to the DataExecutor.",
    ),
    ReleaseRow(
        "summarize_scalar",
        "1.9",
        "2.3",
        "generations.early.summaries:summarize_scalar",
        _removal_hint("summarize_scalar", "add_scalar"),
    ),
    ReleaseRow(
        "summarize_tensor",
        "2.0",
        "2.3",
        "generations.early.summaries:summarize_tensor",
        _removal_hint("summarize_tensor", "add_tensor"),
    ),
    ReleaseRow("backends", since="2.3"),
    ReleaseRow("mesh", since="2.10"),
    ReleaseRow("profiler", since="2.2"),
    ReleaseRow("sparse", since="2.0"),
    ReleaseRow("distributed.ClusterConfig", since="2.3"),
    ReleaseRow("utils.CSConfig", "1.9", "2.2", "generations.early.cs_config:CSConfig", _CLUSTER_HINT),
    ReleaseRow("utils.tensorboard", "1.9", "2.3", instead=_TENSORBOARD_HINT),
    ReleaseRow("utils.data.DataLoader", "1.8", "1.9", "generations.early.data_executors:DataLoader"),
    ReleaseRow("utils.data.DataLoader", since="2.0"),
    ReleaseRow("utils.data.DataExecutor", "1.9", "1.9", "generations.early.data_executors:DataExecutor_1_9"),
    ReleaseRow("utils.data.DataExecutor", "2.0", "2.0", "generations.early.data_executors:DataExecutor_2_0"),
    ReleaseRow("utils.data.DataExecutor", "2.1", "2.1", "generations.early.data_executors:DataExecutor_2_1"),
    ReleaseRow("utils.data.DataExecutor", "2.2", "2.2", "generations.early.data_executors:DataExecutor_2_2"),
    ReleaseRow("utils.data.DataExecutor", "2.3", "2.3", "generations.early.data_executors:DataExecutor_2_3"),
    ReleaseRow("utils.data.DataExecutor", since="2.4"),
    ReleaseRow("utils.data.compute_num_steps", since="1.9"),
    ReleaseRow("utils.data.SyntheticDataset", since="2.2"),
    ReleaseRow("utils.data.DistributedSampler", since="2.2"),
    ReleaseRow("amp.GradScaler", "1.8", "2.1", "generations.early.grad_scaler:GradScaler"),
    ReleaseRow("amp.GradScaler", since="2.2"),
    ReleaseRow("amp.optimizer_step", "1.8", "2.1", "generations.early.grad_scaler:optimizer_step"),
    ReleaseRow("amp.optimizer_step", since="2.2"),
    ReleaseRow(
        "amp.use_bfloat16",
        "1.9",
        "2.1",
        "generations.early.grad_scaler:use_bfloat16",
        "Call cstorch.amp.set_half_dtype(torch.bfloat16).",
    ),
    ReleaseRow("amp.set_half_dtype", since="2.1"),
    ReleaseRow("amp.get_half_dtype", since="2.1"),
    ReleaseRow("amp.enable_mixed_precision", since="2.4"),
    ReleaseRow("amp.mixed_precision", since="2.4"),
    ReleaseRow("amp.get_floating_point_dtype", since="2.4"),
    ReleaseRow("amp.get_floating_point_dtype_str", since="2.4"),
    ReleaseRow(
        "optim.configure_optimizer",
        "1.8",
        "2.3",
        "generations.early.configured_optim:configure_optimizer",
        _CLASS_HINT.format("optimizer", "AdamW"),
    ),
    ReleaseRow(
        "optim.configure_lr_scheduler", "1.8", "1.9", "generations.early.configured_optim:configure_lr_scheduler_1_8"
    ),
    ReleaseRow(
        "optim.configure_lr_scheduler",
        "2.0",
        "2.3",
        "generations.early.configured_optim:configure_lr_scheduler",
        _CLASS_HINT.format("schedule", "lr_scheduler.LinearLR"),
    ),
    ReleaseRow(
        "optim.configure_param_groups",
        "2.0",
        "2.3",
        "generations.early.configured_optim:configure_param_groups",
        "Pass the optimizer a list of groups, each a dict with params and settings.",
    ),
    ReleaseRow("optim.Optimizer", "1.8", "1.8", "generations.early.optimizers:Optimizer"),
    ReleaseRow("optim.Optimizer", since="1.9"),
    ReleaseRow("optim.Lion", since="2.0"),
    ReleaseRow("optim.Muon", since="2.10"),
    ReleaseRow("optim.scheduler", since="2.3"),
    ReleaseRow("optim.weight_decay_scheduler", since="2.3"),
    ReleaseRow("metrics.AccuracyMetric", "1.8", "1.9", "generations.early.metrics:AccuracyMetric"),
    ReleaseRow("metrics.AccuracyMetric", since="2.0"),
    ReleaseRow("metrics.PerplexityMetric", "1.8", "1.9", "generations.early.metrics:PerplexityMetric"),
    ReleaseRow("metrics.PerplexityMetric", since="2.0"),
    ReleaseRow("metrics.compute_all_metrics", "1.8", "1.9", "generations.early.metrics:compute_all_metrics"),
    ReleaseRow(
        "metrics.compute_all_metrics",
        "2.0",
        "2.9",
        "cerebras.pytorch.metrics.metric:compute_all_metrics",
        "Use {name: float(metric) for name, metric in cstorch.metrics.get_all_metrics()}.",
    ),
    ReleaseRow("metrics.MeanMetric", since="2.2"),
    ReleaseRow("metrics.get_all_metrics", since="2.2"),
    ReleaseRow("nn.SelectiveGrad", since="2.4"),
    ReleaseRow(
        "sparse.configure_sparsity_optimizer",
        "2.0",
        "2.1",
        "cerebras.pytorch.sparse.optimizers:configure_sparsity_optimizer",
        _SPARSITY_HINT,
    ),
    ReleaseRow(
        "sparse.configure_sparsity_wrapper",
        "2.0",
        "2.1",
        "cerebras.pytorch.sparse.optimizers:configure_sparsity_wrapper",
        _SPARSITY_HINT,
    ),
    ReleaseRow(
        "sparse.StaticSparsityOptimizer",
        "2.0",
        "2.1",
        "cerebras.pytorch.sparse.optimizers:StaticSparsityOptimizer",
        _SPARSITY_HINT,
    ),
    ReleaseRow(
        "sparse.GMPSparsityOptimizer",
        "2.0",
        "2.1",
        "cerebras.pytorch.sparse.optimizers:GMPSparsityOptimizer",
        _SPARSITY_HINT,
    ),
    ReleaseRow(
        "sparse.SETSparsityOptimizer",
        "2.0",
        "2.1",
        "cerebras.pytorch.sparse.optimizers:SETSparsityOptimizer",
        _SPARSITY_HINT,
    ),
    ReleaseRow(
        "sparse.RigLSparsityOptimizer",
        "2.0",
        "2.1",
        "cerebras.pytorch.sparse.optimizers:RigLSparsityOptimizer",
        _SPARSITY_HINT,
    ),
    ReleaseRow(
        "sparse.SparsityWrapperOptimizer",
        "2.0",
        "2.1",
        "cerebras.pytorch.sparse.optimizers:SparsityWrapperOptimizer",
        _SPARSITY_HINT,
    ),
    ReleaseRow("sparse.configure", since="2.2"),
    ReleaseRow("sparse.Static", since="2.2"),
    ReleaseRow("sparse.GMP", since="2.2"),
    ReleaseRow("sparse.SET", since="2.2"),
    ReleaseRow("sparse.RigL", since="2.2"),
    ReleaseRow("sparse.Group", since="2.2"),
    ReleaseRow("sparse.SparsityAlgorithm", since="2.2"),
    ReleaseRow("experimental.Compression", since="2.4"),
    ReleaseRow("experimental.listener", since="2.1"),
)
"""The history of names, from the documentation and the Model Zoo of each release."""
IMPORT_ONLY_MODULES = ("utils.tensorboard",)
"""Modules that later releases have but do not set as an attribute: only importing them works."""


def find_rows(path: str) -> list[ReleaseRow]:
    """Return the rows of a name, oldest first."""
    return [row for row in RELEASE_ROWS if row.path == path]


def find_row(path: str, span: ReleaseRange) -> ReleaseRow | None:
    """Return the row of the name `path` for the newest release in `span` that has it, or None if there is no such row.

    There is none for a name that exists in all releases or in none.
    """
    return next((row for row in reversed(find_rows(path)) if row.span.meets(span)), None)


def explain_absence(path: str, span: ReleaseRange) -> tuple[str, str] | None:
    """Return the reason why a name does not exist in the releases `span`, and a hint.

    `path` is its path in the package.

    Return None if it exists there, or has no rows. The hint is the replacement of a removed name, or the release to
    choose for a later one.
    """
    history = find_rows(path)
    # Names without rows exist in all releases or in none; the manifest decides which.
    if not history or any(row.span.meets(span) for row in history):
        return None
    have = (
        f"it exists in release {ReleaseRange(history[0].since, history[-1].until)}, but the script uses release {span}"
    )
    # A removed name needs another call, a later name needs another release.
    if parse_release(history[-1].until) < parse_release(span.since):
        return have, history[-1].instead or "Use its replacement in the later release."
    return have, f"Run the script with --api {history[0].since} or later."


def find_target(path: str, span: ReleaseRange) -> str | None:
    """Return the "module:name" of a name in `span` if it differs from the latest release, else None."""
    row = find_row(path, span)
    return row.target or None if row is not None else None


def find_older_names(path: str, span: ReleaseRange) -> Iterator[str]:
    """Yield the names directly below `path` that `span` has and the latest release lacks or has in another form."""
    prefix = f"{path}." if path else ""
    for row in RELEASE_ROWS:
        name = row.path.removeprefix(prefix)
        if row.target and row.path.startswith(prefix) and "." not in name and row.span.meets(span):
            yield name
