"""The releases of the API as data: which spelling of the package means what, and which names came and went.

A name is given by its path in the package, such as "optim.configure_optimizer". One without a row has been there since
release 1.8, the first with this API; before it there was cbtorch, whose modules have no rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

RELEASES = tuple(f"1.{n}" for n in range(2, 10)) + tuple(f"2.{n}" for n in range(11))
LATEST = RELEASES[-1]
GENERATIONS = "cstorch_compat.generations"
CSTORCH, CBTORCH = f"{GENERATIONS}.cstorch", f"{GENERATIONS}.cbtorch"
APPLIANCE = f"{GENERATIONS}.appliance"
APPLIANCE_PARTS = (
    "",
    ".log",
    ".run_utils",
    ".utils.debug_args",
    ".utils.ini",
    ".pb.workflow.appliance.common.common_config_pb2",
)


def number(release: str) -> tuple[int, int]:
    """A release as something that can be compared. Raises ValueError for one that is not known."""
    if release not in RELEASES:
        raise ValueError(f"there is no release {release!r} of the API; known are {', '.join(RELEASES)}")
    major, minor = release.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class Span:
    """The releases from `since` to `until`, both included."""

    since: str
    until: str

    def meets(self, other: "Span") -> bool:
        """Whether a release lies in both."""
        return number(self.since) <= number(other.until) and number(other.since) <= number(self.until)

    def __str__(self) -> str:
        return self.since if self.since == self.until else f"{self.since} to {self.until}"


@dataclass(frozen=True)
class Spelling:
    """What a name of the package means in some releases: the module behind it.

    Modules of `CSTORCH` are shown as they were in the release, all others as they are.
    """

    name: str
    span: Span
    target: str


SPELLINGS = (
    Spelling("cerebras.pytorch", Span("2.2", "2.10"), CSTORCH),
    Spelling("cerebras_pytorch", Span("1.6", "1.9"), CBTORCH),
    Spelling("cerebras_pytorch", Span("2.0", "2.1"), CSTORCH),
    Spelling("cerebras_pytorch.experimental", Span("1.8", "1.9"), CSTORCH),
    Spelling("cerebras_pytorch.experimental", Span("2.0", "2.1"), f"{CSTORCH}.experimental"),
    Spelling("cerebras_torch", Span("1.2", "1.8"), CBTORCH),
    Spelling("cerebras.framework.torch", Span("1.2", "1.9"), CBTORCH),
    Spelling("cerebras.models.common.pytorch.optim.AdamW", Span("1.2", "1.9"), f"{CBTORCH}.adamw"),
    *(Spelling(f"cerebras_appliance{part}", Span("1.6", "2.1"), APPLIANCE) for part in APPLIANCE_PARTS),
    *(Spelling(f"cerebras.appliance{part}", Span("2.2", "2.10"), APPLIANCE) for part in APPLIANCE_PARTS),
)
DEFAULTS = {
    "cerebras.pytorch": Span(LATEST, LATEST),
    "cerebras_pytorch": Span("2.0", "2.1"),
    "cerebras_pytorch.experimental": Span("1.8", "1.9"),
}
"""The releases meant where none is chosen and a spelling could mean several."""


def spelling(name: str, api: str | None) -> tuple[Spelling, Span] | None:
    """What a name of the package, or of a module in it, means in a release; None if it means nothing there.

    The span is what the module is to show: the release that was chosen, or the usual ones.
    """
    best = max((s.name for s in SPELLINGS if name == s.name or name.startswith(s.name + ".")), key=len, default=None)
    for row in (s for s in SPELLINGS if s.name == best):
        wanted = Span(api, api) if api else DEFAULTS.get(row.name, row.span)
        if row.span.meets(wanted):
            return row, wanted
    return None


def is_package_above(name: str) -> bool:
    """Whether a name is only the way to others, as "cerebras.framework" is."""
    return any(s.name.startswith(name + ".") for s in SPELLINGS) and all(s.name != name for s in SPELLINGS)


def spellings_of(name: str) -> list[Spelling]:
    """Every meaning of a name, in whatever release."""
    return [s for s in SPELLINGS if name == s.name or name.startswith(s.name + ".")]


@dataclass(frozen=True)
class Row:
    """A name that was not in every release, or not always the same.

    `target` is "module:name" in this package where it is not what the latest release has; `instead` is what the
    releases after it say.
    """

    path: str
    since: str = "1.8"
    until: str = LATEST
    target: str = ""
    instead: str = ""

    @property
    def span(self) -> Span:
        """The releases that have it."""
        return Span(self.since, self.until)


def _removed(what: str, call: str) -> str:
    return (
        f"cstorch.{what} is now removed. Please create a SummaryWriter and write to it directly:\n\n"
        "\timport cerebras.pytorch.utils.tensorboard\n\n\twriter = tensorboard.SummaryWriter(log_dir='./log_dir')\n"
        f"\twriter.{call}(...)\n\nNote, writing to a SummaryWriter should only occur inside a step closure."
    )


_CLUSTER = (
    'Pass a "cstorch.distributed.ClusterConfig" to the backend instead:\n\n\tbackend = cstorch.backend(\n\t\t"CSX", '
    "cluster_config=cstorch.distributed.ClusterConfig(...)\n\t)"
)
_TENSORBOARD = (
    "cstorch.utils.tensorboard must be imported before it can be accessed:\n\n"
    "\timport cerebras.pytorch.utils.tensorboard"
)
_CONFIGURE = 'Write `backend = cstorch.backend("CSX", ...)` and `DataExecutor(dataloader, checkpoint_steps=...)`.'
_SPARSITY = (
    "Write `sparsity = cstorch.sparse.configure(...)`, then `model.apply(sparsity)` and `optimizer.apply(sparsity)`."
)
_MAKE = "Make the {0} from its class, as in cstorch.optim.{1}."

ROWS = (
    Row("configure", until="1.8", target="generations.early.configure:configure", instead=_CONFIGURE),
    Row("compile", until="1.9", target="generations.early.configure:compile"),
    Row("compile", since="2.0"),
    Row(
        "compile_step",
        until="1.9",
        target="generations.early.configure:compile_step",
        instead="It is called cstorch.trace.",
    ),
    Row("trace", since="2.0"),
    Row("backend", "1.9", "1.9", "generations.early.backend:backend_1_9"),
    Row("backend", "2.0", "2.1", "generations.early.backend:backend_2_0"),
    Row("backend", "2.2", "2.2", "generations.early.backend:backend_2_2"),
    Row("backend", "2.3"),
    Row("checkpoint_closure", since="1.9"),
    Row("current_executor", since="2.1"),
    Row("pol", since="2.1"),
    Row("current_pol", since="2.1"),
    Row("manual_seed", "2.0", "2.1", "generations.early.backend:manual_seed", "Call torch.manual_seed."),
    Row("scalar_summary", "1.8", "1.8", "generations.early.summaries:scalar_summary", "Call cstorch.summarize_scalar."),
    Row(
        "save_summaries",
        "1.8",
        "1.8",
        "generations.early.summaries:save_summaries",
        "Pass a writer to the DataExecutor.",
    ),
    Row(
        "summarize_scalar",
        "1.9",
        "2.3",
        "generations.early.summaries:summarize_scalar",
        _removed("summarize_scalar", "add_scalar"),
    ),
    Row(
        "summarize_tensor",
        "2.0",
        "2.3",
        "generations.early.summaries:summarize_tensor",
        _removed("summarize_tensor", "add_tensor"),
    ),
    Row("backends", since="2.3"),
    Row("mesh", since="2.10"),
    Row("profiler", since="2.2"),
    Row("sparse", since="2.0"),
    Row("distributed.ClusterConfig", since="2.3"),
    Row("utils.CSConfig", "1.9", "2.2", "generations.early.cluster:CSConfig", _CLUSTER),
    Row("utils.tensorboard", "1.9", "2.3", "generations.cstorch.utils.tensorboard:", _TENSORBOARD),
    Row("utils.data.DataLoader", "1.8", "1.9", "generations.early.data:DataLoader"),
    Row("utils.data.DataLoader", since="2.0"),
    Row("utils.data.DataExecutor", "1.9", "1.9", "generations.early.data:DataExecutor_1_9"),
    Row("utils.data.DataExecutor", "2.0", "2.0", "generations.early.data:DataExecutor_2_0"),
    Row("utils.data.DataExecutor", "2.1", "2.1", "generations.early.data:DataExecutor_2_1"),
    Row("utils.data.DataExecutor", "2.2", "2.2", "generations.early.data:DataExecutor_2_2"),
    Row("utils.data.DataExecutor", "2.3", "2.3", "generations.early.data:DataExecutor_2_3"),
    Row("utils.data.DataExecutor", since="2.4"),
    Row("utils.data.compute_num_steps", since="1.9"),
    Row("utils.data.SyntheticDataset", since="2.2"),
    Row("utils.data.DistributedSampler", since="2.2"),
    Row("amp.GradScaler", "1.8", "2.1", "generations.early.amp:GradScaler"),
    Row("amp.GradScaler", since="2.2"),
    Row("amp.optimizer_step", "1.8", "2.1", "generations.early.amp:optimizer_step"),
    Row("amp.optimizer_step", since="2.2"),
    Row(
        "amp.use_bfloat16",
        "1.9",
        "2.1",
        "generations.early.amp:use_bfloat16",
        "Call cstorch.amp.set_half_dtype(torch.bfloat16).",
    ),
    Row("amp.set_half_dtype", since="2.1"),
    Row("amp.get_half_dtype", since="2.1"),
    Row("amp.enable_mixed_precision", since="2.4"),
    Row("amp.mixed_precision", since="2.4"),
    Row("amp.get_floating_point_dtype", since="2.4"),
    Row("amp.get_floating_point_dtype_str", since="2.4"),
    Row(
        "optim.configure_optimizer",
        "1.8",
        "2.3",
        "generations.early.configured:configure_optimizer",
        _MAKE.format("optimizer", "AdamW"),
    ),
    Row("optim.configure_lr_scheduler", "1.8", "1.9", "generations.early.configured:configure_lr_scheduler_1_8"),
    Row(
        "optim.configure_lr_scheduler",
        "2.0",
        "2.3",
        "generations.early.configured:configure_lr_scheduler",
        _MAKE.format("schedule", "lr_scheduler.LinearLR"),
    ),
    Row(
        "optim.configure_param_groups",
        "2.0",
        "2.3",
        "generations.early.configured:configure_param_groups",
        "Give the optimizer a list of groups, each a dict with params and settings.",
    ),
    Row("optim.Lion", since="2.0"),
    Row("optim.Muon", since="2.10"),
    Row("optim.scheduler", since="2.3"),
    Row("optim.weight_decay_scheduler", since="2.3"),
    Row("metrics.AccuracyMetric", "1.8", "1.9", "generations.early.metrics:AccuracyMetric"),
    Row("metrics.AccuracyMetric", since="2.0"),
    Row("metrics.PerplexityMetric", "1.8", "1.9", "generations.early.metrics:PerplexityMetric"),
    Row("metrics.PerplexityMetric", since="2.0"),
    Row("metrics.compute_all_metrics", "1.8", "1.9", "generations.early.metrics:compute_all_metrics"),
    Row(
        "metrics.compute_all_metrics",
        "2.0",
        "2.9",
        "metrics.metric:compute_all_metrics",
        "Use {name: float(metric) for name, metric in cstorch.metrics.get_all_metrics()}.",
    ),
    Row("metrics.MeanMetric", since="2.2"),
    Row("metrics.get_all_metrics", since="2.2"),
    Row("nn.SelectiveGrad", since="2.4"),
    Row(
        "sparse.configure_sparsity_optimizer",
        "2.0",
        "2.1",
        "sparse.sparse_optimizers:configure_sparsity_optimizer",
        _SPARSITY,
    ),
    Row(
        "sparse.configure_sparsity_wrapper",
        "2.0",
        "2.1",
        "sparse.sparse_optimizers:configure_sparsity_wrapper",
        _SPARSITY,
    ),
    Row("sparse.StaticSparsityOptimizer", "2.0", "2.1", "sparse.sparse_optimizers:StaticSparsityOptimizer", _SPARSITY),
    Row("sparse.GMPSparsityOptimizer", "2.0", "2.1", "sparse.sparse_optimizers:GMPSparsityOptimizer", _SPARSITY),
    Row("sparse.SETSparsityOptimizer", "2.0", "2.1", "sparse.sparse_optimizers:SETSparsityOptimizer", _SPARSITY),
    Row("sparse.RigLSparsityOptimizer", "2.0", "2.1", "sparse.sparse_optimizers:RigLSparsityOptimizer", _SPARSITY),
    Row(
        "sparse.SparsityWrapperOptimizer", "2.0", "2.1", "sparse.sparse_optimizers:SparsityWrapperOptimizer", _SPARSITY
    ),
    Row("sparse.configure", since="2.2"),
    Row("sparse.Static", since="2.2"),
    Row("sparse.GMP", since="2.2"),
    Row("sparse.SET", since="2.2"),
    Row("sparse.RigL", since="2.2"),
    Row("sparse.Group", since="2.2"),
    Row("sparse.SparsityAlgorithm", since="2.2"),
    Row("experimental.Compression", since="2.4"),
    Row("experimental.listener", since="2.1"),
)
"""Facts about the releases are from the pages and the Model Zoo of each."""


def rows(path: str) -> list[Row]:
    """The rows of a name, the oldest first."""
    return [row for row in ROWS if row.path == path]


def row_for(path: str, span: Span) -> Row | None:
    """What a name is in the newest release of a span that has it; None without a row, or if no release has it."""
    return next((row for row in reversed(rows(path)) if row.span.meets(span)), None)


def absence(path: str, span: Span) -> tuple[str, str] | None:
    """Why a name with rows is not in a span, and what to do; None for a name that is there or has no rows."""
    known = rows(path)
    if not known or any(row.span.meets(span) for row in known):
        return None
    have = f"it is in release {Span(known[0].since, known[-1].until)}, and the script runs as release {span}"
    if number(known[-1].until) < number(span.since):
        return have, known[-1].instead or "Use what took its place in the later release."
    return have, f"Run the script with --api {known[0].since} or later."


def is_module(path: str) -> bool:
    """Whether a name is a module, which `from ... import` finds although it is no attribute yet."""
    return any(row.target.endswith(":") for row in rows(path))


def names_below(path: str, span: Span) -> Iterator[str]:
    """The names directly below a path that a span has and that stand in a row."""
    prefix = f"{path}." if path else ""
    for row in ROWS:
        name = row.path.removeprefix(prefix)
        if row.path.startswith(prefix) and "." not in name and row.span.meets(span):
            yield name
