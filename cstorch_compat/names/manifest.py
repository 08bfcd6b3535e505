"""Which names of the emulated packages exist here, and what to say of the others.

`known_names.txt` lists the public names of cerebras.pytorch 2.10 and the names of PyTorch that published scripts use.
A name that a module has is provided; one that is only listed is known but missing; any other is unknown.
"""

import difflib
import functools
import pathlib
from typing import Any

from cstorch_compat.names import releases
from lazytensor import errors, source
from lazytensor.errors import NameMissing

CSTORCH_PREFIX = "cerebras.pytorch."
ABSENT = object()
"""Stands for the value of a name that is not there."""
PARTIAL = {
    "torch.Tensor.backward": "a second one is refused on the same tensor only",
    "torch.Tensor.view": "no view in another dtype, and some views are allowed that PyTorch refuses",
    "cerebras.pytorch.load": "no PyTorch files from before the zip format; a pickled object stays closed",
    "torch.load": "no files from before the zip format, no pickled modules",
    "torch.save": "tensors, numbers, text and plain containers; no modules and other objects",
    "torch.linalg.qr": "the reduced form only",
    "torch.linalg.svd": "the reduced form only (full_matrices=False)",
    "torch.nn.Embedding": "no max_norm",
    "torch.nn.EmbeddingBag": "no max_norm",
    "torch.nn.LSTM": "no proj_size",
    "torch.profiler.profile": "blocks that a script names and steps; no operations, shapes or memory",
    "torch.distributed": "one process: groups of world size 1",
    "torch.compile": "the function itself: what it computes is compiled anyway",
    "torch.jit.script": "the function itself, run by Python",
    "torch.nn.Dropout": "inside a traced step the random numbers are not PyTorch's",
    "torch.nn.functional.dropout": "inside a traced step the random numbers are not PyTorch's",
    "torch.nn.functional.embedding": "no max_norm",
    "torch.nn.functional.grid_sample": "no bicubic mode",
    "torch.nn.functional.interpolate": "no antialias",
    "torch.utils.data.DataLoader": "pin_memory has no effect",
    "cerebras.pytorch.profiler.profile": "the kernels of the wafer; no host_activities",
    "torch.utils.tensorboard.SummaryWriter": "scalars, texts and histograms",
    "cerebras.pytorch.utils.tensorboard.SummaryWriter": "scalars, texts, histograms and tensors",
    "cerebras.pytorch.utils.tensorboard.SummaryReader": "no filter of files",
    "cerebras.pytorch.nn.DiceLoss": "no one-hot targets, no argmax of predictions",
    "cerebras.pytorch.backends": "optimization_level, retrace_every_iteration and implicit_cast_cb16_to_fp32 have an "
    "effect; the others are checked and no more",
    "cerebras.pytorch.distributed.ClusterConfig": "only num_csx and num_workers_per_csx have an effect",
    "cerebras_pytorch.backend": "max_checkpoints, drop_data and the like are taken and have no effect",
    "cerebras_pytorch.experimental.configure": "of the cluster's settings only the two of ClusterConfig have an effect",
    "cerebras_pytorch.utils.CSConfig": "as ClusterConfig; precision_opt_level and transfer_processes set flags",
    "cerebras_torch.initialize": "cs_ip, service_workdir, compile_dir and appliance have no effect",
    "cerebras_torch.optimizer": "optimizers of torch.optim keep no state in a Session: use cbtorch.optim",
    "cerebras_torch.core.cb_model.set_run_config": "has no effect: everything can be fetched after every step",
    "cerebras.appliance": "settings of the compiler are kept and have no effect",
    "torchvision.datasets.MNIST": "reads the real files, or serves the digits that ship with the project",
}
"""Names that are there but do less than the original, with the reason."""


@functools.cache
def known_names() -> frozenset[str]:
    """Every name of `known_names.txt`."""
    return frozenset((pathlib.Path(__file__).parent / "known_names.txt").read_text().split())


MISSING = {
    "torch.distributed": "a run is one process, and this needs several",
    "torch.jit": "Python runs what would be scripted",
    "torch.onnx": "there is no exporter",
    "torch.sparse": "there are no sparse layouts",
    "torch.Tensor.to_sparse": "there are no sparse layouts",
    "torch.polar": "there are no complex numbers",
    "torch.view_as_complex": "there are no complex numbers",
    "torch.view_as_real": "there are no complex numbers",
    "torchvision": "only MNIST and a few transforms are there",
    "cerebras.pytorch.experimental.listener": "no published page says what its functions take",
    "cerebras.pytorch.mesh": "not written yet",
}
"""Reasons for names that are missing, by the longest prefix; the others are not written yet."""


def reason_for(name: str) -> str:
    """Why a known name is missing."""
    prefix = max((p for p in MISSING if name == p or name.startswith(p + ".")), key=len, default="")
    return MISSING.get(prefix, "not written yet")


def refuse(public: str, name: str, have: list[str], full: str = "") -> Any:
    """Raise NameMissing for `public.name`; `have` are the names that the module does provide.

    `full` is how the lists call it, where the module is known by more than one name. While a script is checked, give
    back a stand-in instead.
    """
    # The lists know a module by its latest name, the user by the one that was imported: both are needed.
    full = full or f"{public}.{name}"
    owner = f"a {public}" if public == "torch.Tensor" else f"module {public!r}"
    # Only the packages of cstorch have a history; torch is the same for every release.
    path = full.removeprefix(CSTORCH_PREFIX) if full.startswith(CSTORCH_PREFIX) else ""
    gone = releases.absence(path, releases.LATEST_ONLY)
    if gone is not None:
        return refuse_absent(public, name, path, *gone)
    # A known name may be a module of which only the names inside are listed.
    if releases.rows(path) or full in known_names() or any(n.startswith(full + ".") for n in known_names()):
        error = NameMissing(
            f"{owner} has no attribute {name!r}: it is known but missing in this version ({reason_for(full)})",
            where=source.where(),
            hint="Replace it by an operation that is there, or run this part with the original package.",
        )
        return errors.refuse("missing here", error, full)
    # One suggestion, of names that are really here: a way out has to work.
    near = difflib.get_close_matches(name, have, 1)
    error = NameMissing(
        f"{owner} has no attribute {name!r}: no such name is known",
        where=source.where(),
        hint=f"Did you mean {public}.{near[0]}?" if near else "Check the spelling and the release that has it.",
    )
    return errors.refuse("unknown name", error, full)


def refuse_absent(public: str, name: str, path: str, why: str, hint: str) -> Any:
    """Raise NameMissing for a name that the release of the script has not; while a script is checked, a stand-in.

    A module that has only to be imported is no finding of the check: the import itself asks here first.
    """
    error = NameMissing(f"module {public!r} has no attribute {name!r}: {why}", where=source.where(), hint=hint)
    # `from x import y` asks for the attribute first and imports the module if that fails, so it has to fail.
    if path in releases.IMPORTED:
        raise error
    return errors.refuse("not in this release", error, f"{public}.{name}")


def explain_class(public: str, kind: Any) -> None:
    """Make the instances of a class answer for the attributes that they do not have."""

    def missing(self: object, name: str) -> Any:
        # copy, pickle and numpy ask for private names that most objects lack; their answer must be plain and quick.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return refuse(public, name, [n for n in dir(kind) if not n.startswith("_")])

    kind.__getattr__ = missing
