"""Which names of the emulated packages are known, and the messages for those that do not exist here.

`known_names.txt` lists the public names of cerebras.pytorch 2.10 and the names of PyTorch that published scripts use.
`torch_surface.txt` lists all public names of PyTorch, and `torch_undocumented.txt` the other ones of its modules. A
listed name that does not exist here is "known but missing"; any other name is unknown.

The lists are data because most of their names have no code here.
"""

import difflib
import functools
import pathlib
from typing import Any

from cstorch_compat.names import mirror_table, releases, torch_surface
from lazytensor import errors
from lazytensor.core import source
from lazytensor.errors import NameMissing

CSTORCH_PREFIX = "cerebras.pytorch."
"""Prefix of the names of the Cerebras API."""
ABSENT = object()
"""A marker for a name that does not exist."""
PARTIAL_REASONS = {
    "torch.Tensor.view": "a view in another dtype is a copy, and some views are allowed that PyTorch refuses",
    "cerebras.pytorch.load": "no PyTorch files from before the zip format; pickled objects are not loaded",
    "torch.load": "loads only the classes of an allow list, and with weights_only=False also plain classes that the "
    "script has imported",
    "torch.linalg.qr": "the reduced form only",
    "torch.nn.Embedding": "no scale_grad_by_freq; max_norm outside of traced steps only",
    "torch.nn.EmbeddingBag": "no scale_grad_by_freq; max_norm outside of traced steps only",
    "torch.nn.LSTM": "no proj_size",
    "torch.profiler.profile": "records named blocks and steps; no operations, shapes or memory",
    "torch.distributed": "one process: groups of world size 1",
    "torch.compile": "returns the function unchanged: steps are compiled anyway",
    "torch.jit.script": "returns the function unchanged: Python runs it",
    "torch.nn.Dropout": "inside a traced step the random numbers are not PyTorch's",
    "torch.nn.functional.dropout": "inside a traced step the random numbers are not PyTorch's",
    "torch.nn.functional.embedding": "no scale_grad_by_freq; max_norm outside of traced steps only",
    "torch.nn.functional.interpolate": "no antialias",
    "torch.utils.data.DataLoader": "pin_memory has no effect",
    "cerebras.pytorch.experimental.Compression": "the format is recorded, and weights are not compressed",
    "cerebras.pytorch.experimental.listener.register_traced_tensor_hook": "reports outputs of layers, but not those of "
    "functions in the code of the model, of the backward pass and of the optimizer",
    "cerebras.pytorch.profiler.profile": "the kernels of the wafer; no host_activities",
    "torch.utils.tensorboard.SummaryWriter": "all but meshes, audio, video, tensors and custom layouts",
    "cerebras.pytorch.utils.tensorboard.SummaryWriter": "all but meshes, audio, video and custom layouts",
    "cerebras.pytorch.utils.tensorboard.SummaryReader": "files cannot be filtered",
    "cerebras.pytorch.nn.DiceLoss": "no one-hot targets, no argmax of predictions",
    "cerebras.pytorch.backends": "optimization_level, micro_batch_size, lazy_initialization, retrace_every_iteration "
    "and implicit_cast_cb16_to_fp32 have an effect; the others are checked, and listed when a run sets them",
    "cerebras.pytorch.distributed.ClusterConfig": "num_csx, num_workers_per_csx and python_paths have an effect; the "
    "others are checked, and listed when a run sets them",
    "cerebras_pytorch.backend": "max_checkpoints and drop_data are checked, and listed when a run sets them",
    "cerebras_pytorch.experimental.configure": "of the cluster settings, only those of ClusterConfig have an effect",
    "cerebras_pytorch.utils.CSConfig": "as ClusterConfig; precision_opt_level and transfer_processes set flags",
    "cerebras_torch.initialize": "cs_ip, service_workdir and appliance have no effect, and are listed",
    "cerebras_torch.optimizer": "optimizers of torch.optim keep no state in a Session: use cbtorch.optim",
    "cerebras_torch.core.cb_model.set_run_config": "has no effect: everything can be fetched after every step",
    "cerebras.appliance": "settings of the compiler are kept and have no effect",
    "torchvision.datasets.MNIST": "reads the real files, or uses the digits that this package includes",
}
"""Names that exist here but do less than the original, with the reason."""


@functools.cache
def names_in_published_scripts() -> frozenset[str]:
    """Return the names in `known_names.txt`."""
    return frozenset(pathlib.Path(__file__).with_name("known_names.txt").read_text(encoding="utf-8").split())


@functools.cache
def known_names() -> frozenset[str]:
    """Return every name that the originals are known to have."""
    return names_in_published_scripts() | torch_surface.all_torch_names()


def is_known(full: str) -> bool:
    """Return whether the original has a name. Parents of listed names count, and names of older releases.

    Undocumented and private names of PyTorch count.
    """
    return (
        full in known_names()
        or full in _parent_modules()
        or torch_surface.is_torch_name(full)
        or bool(releases.find_rows(full.removeprefix(CSTORCH_PREFIX)))
    )


@functools.cache
def _parent_modules() -> frozenset[str]:
    """Return every prefix of a known name."""
    return frozenset(name[:k] for name in known_names() for k, letter in enumerate(name) if letter == ".")


MISSING_REASONS = {
    "torch.fft": "complex numbers are not implemented",
    "torch.distributed": "it needs several processes, and a run has one",
    "torch.jit": "functions are not scripted: Python runs them",
    "torch.onnx": "export is not implemented",
    "torch.sparse": "only the coordinate layout and its products are implemented",
    "torch.polar": "complex numbers are not implemented",
    "torch.view_as_complex": "complex numbers are not implemented",
    "torch.view_as_real": "complex numbers are not implemented",
    "torchvision": "only classification models, local data sets and common transforms are implemented",
    "cerebras.pytorch.mesh": "not implemented yet",
}
"""Why a name is missing, by prefix; the longest one counts. Other names are not written yet."""


WORKAROUNDS = {
    "torch.onnx": "Save the state_dict here, and export it with the original package.",
    "torch.export": "Save the state_dict here, and export it with the original package.",
    "torch.fx": "Write the transformed model as a module, or run this part with the original package.",
    "torch._dynamo": "Leave it out: steps are traced and compiled without it.",
    "torch._inductor": "Leave it out: steps are traced and compiled without it.",
    "torch.cuda": "Guard it by torch.cuda.is_available(), which is False here.",
    "torch.polar": "Compute with the real and the imaginary part as two tensors.",
    "torch.view_as_complex": "Compute with the real and the imaginary part as two tensors.",
    "torch.view_as_real": "Compute with the real and the imaginary part as two tensors.",
    "torch.quantization": "Train in float32 or bfloat16 here, and quantize with the original package.",
    "torch.ao": "Train in float32 or bfloat16 here, and quantize with the original package.",
    "torchvision": "Load the data or the model from a local file.",
}
"""What to do without a missing name, by prefix; the longest one counts."""
DEFAULT_WORKAROUND = "Replace it by a supported operation, or run this part with the original package."
"""The workaround for names without a row in WORKAROUNDS."""
NATIVE_PACKAGES = frozenset(
    """apex bitsandbytes deepspeed fairscale flash_attn mamba_ssm megatron pyg_lib tensorrt torch_cluster
    torch_geometric torch_scatter torch_sparse torch_spline_conv torch_tensorrt torchao torchaudio torchdata torchtext
    torchtune torchtitan torch_xla triton vllm xformers""".split()
)
"""Packages that are compiled against PyTorch or a GPU. Installing them does not help."""


def _find_by_prefix(rows: dict[str, str], name: str, default: str) -> str:
    """Return the value of the longest prefix of `name` in `rows`, or `default`."""
    prefix = max((p for p in rows if name == p or name.startswith(p + ".")), key=len, default="")
    return rows.get(prefix, default)


def find_missing_reason(name: str) -> str:
    """Return why a known name is missing."""
    return _find_by_prefix(MISSING_REASONS, name, "not implemented yet")


def find_workaround(name: str) -> str:
    """Return what to do without a known name."""
    return _find_by_prefix(WORKAROUNDS, name, DEFAULT_WORKAROUND)


def find_package_workaround(package: str) -> str:
    """Return what to do about a package outside of the emulated ones that is not installed."""
    if package.partition(".")[0] in NATIVE_PACKAGES:
        return "Run this part with the original packages: this one is compiled against PyTorch or a GPU."
    return f"Install {package} where lazywafer is installed, or leave the import out."


def format_absent_module(name: str, path: str) -> str:
    """Return the error message for importing a missing module. `path` is its name in the lists.

    It begins with the line of the script. It has the reason and a workaround for a known module, else a similar name.
    """
    place = source.where()
    if is_known(path):
        why = f"it is known but missing in this version ({find_missing_reason(path)})"
        return f"{place}: No module named {name!r}: {why}\n  {find_workaround(path)}"
    near = difflib.get_close_matches(path, [*mirror_table.entries()], 1)
    hint = f"Did you mean {near[0]}?" if near else "Check the spelling, and which release has the name."
    return f"{place}: No module named {name!r}: the module is unknown\n  {hint}"


def refuse_name(public: str, name: str, have: list[str], full: str = "") -> Any:
    """Raise NameMissing for the name `public.name`. In `lazywafer check`, record a finding and return a placeholder.

    The placeholder is a StandIn. `have` are the names that exist in the module, for a suggestion. `full` is the name in
    the lists, if the module is imported under another spelling.
    """
    # The lists have the latest name of a module; `public` is the imported one.
    full = full or f"{public}.{name}"
    owner = f"a {public}" if public == "torch.Tensor" else f"module {public!r}"
    # Only cstorch has a history of releases.
    path = full.removeprefix(CSTORCH_PREFIX) if full.startswith(CSTORCH_PREFIX) else ""
    gone = releases.explain_absence(path, releases.LATEST_ONLY)
    if gone is not None:
        return refuse_absent_name(public, name, path, *gone)
    if is_known(full):
        error = NameMissing(
            f"{owner} has no attribute {name!r}: it is known but missing in this version ({find_missing_reason(full)})",
            where=source.where(),
            hint=find_workaround(full),
        )
        return errors.refuse("missing here", error, full)
    # Suggest only names that exist here.
    near = difflib.get_close_matches(name, have, 1)
    # PyTorch's lists do not contain the names of a few private modules.
    is_private = torch_surface.is_private(full) and full.startswith("torch.")
    unknown = "private names of PyTorch are not provided" if is_private else "the name is unknown"
    error = NameMissing(
        f"{owner} has no attribute {name!r}: {unknown}",
        where=source.where(),
        hint=f"Did you mean {public}.{near[0]}?" if near else "Check the spelling, and which release has the name.",
    )
    return errors.refuse("unknown name", error, full)


def refuse_absent_name(public: str, name: str, path: str, why: str, hint: str) -> Any:
    """Raise NameMissing for a name that the script's release does not have.

    In `lazywafer check`, record a finding and return a StandIn, a placeholder. `why` and `hint` complete the message.
    `path` is the name in the release rows. Modules in IMPORT_ONLY_MODULES always raise: Python reads the attribute
    before it imports the module.
    """
    error = NameMissing(f"module {public!r} has no attribute {name!r}: {why}", where=source.where(), hint=hint)
    # `from x import y` reads the attribute first and imports the module only if that fails.
    if path in releases.IMPORT_ONLY_MODULES:
        raise error
    return errors.refuse("not in this release", error, f"{public}.{name}")


def explain_missing_attributes(public: str, kind: Any) -> None:
    """Set `kind.__getattr__`, so that a missing attribute of an instance raises NameMissing with an explanation.

    `public` is the public name of the class. As in `refuse_name`, `lazywafer check` records a finding and returns a
    placeholder instead. A name that begins with "__" raises a plain AttributeError. Another private name raises
    NameMissing, in `lazywafer check` too.
    """

    def missing(self: object, name: str) -> Any:
        # copy, pickle and numpy test for special names, which must fail quickly with a plain error.
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name.startswith("_"):
            text = f"a {public} has no attribute {name!r}: private names of PyTorch are not provided"
            raise NameMissing(text, where=source.where(), hint="Use a documented name.")
        return refuse_name(public, name, [n for n in dir(kind) if not n.startswith("_")])

    kind.__getattr__ = missing
