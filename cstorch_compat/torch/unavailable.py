"""Modules that model code imports and that nothing here can do: importable, with an error on use that says why."""

from collections.abc import Callable
from typing import Any, NoReturn

from lazytensor import source
from lazytensor.errors import OptionMissing

WHY = {
    "torch.fx": (
        "there is no FX graph: tensors here record their own",
        "Call the module; cstorch.trace captures a step.",
    ),
    "torch.onnx": ("there is no ONNX exporter", "Save model.state_dict() and export it where PyTorch is."),
    "torch.export": ("there is no exporter of programs", "Save model.state_dict() and export it where PyTorch is."),
    "torch.ao": ("there are no quantized types", "Train in float32 or bfloat16 and quantize where PyTorch is."),
    "torch.distributed": ("a run is one process", "Leave it out where the world size is 1."),
    "torch.hub": ("nothing is ever downloaded", "Put the files where torch.hub.get_dir() says."),
}
"""By package: why, and what to do instead."""


def refusal(name: str) -> OptionMissing:
    """The error for a use of a public name."""
    why, hint = next(WHY[p] for p in WHY if name.startswith(p))
    return OptionMissing(f"{name}: {why}", where=source.where(), hint=hint)


def function(name: str) -> Callable[..., NoReturn]:
    """A function that raises when it is called."""

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(name)

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__doc__ = f"Raises OptionMissing: {next(WHY[p] for p in WHY if name.startswith(p))[0]}."
    return refused


def kind(name: str) -> type:
    """A class that can be named, derived from and asked about, and raises when it is made."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        raise refusal(name)

    body = {
        "__init__": __init__,
        "__doc__": "Raises OptionMissing when it is made.",
        "__module__": name.rpartition(".")[0],
    }
    return type(name.rpartition(".")[2], (), body)


CLASSES = """torch.fx.Graph torch.fx.GraphModule torch.fx.Interpreter torch.fx.Node torch.fx.Proxy torch.fx.Tracer
    torch.fx.Transformer torch.fx.CodeGen torch.fx.node.Node torch.fx.proxy.Proxy torch.fx.graph.Graph
    torch.fx.graph_module.GraphModule torch.fx._symbolic_trace.Tracer
    torch.onnx.ONNXProgram torch.onnx.OperatorExportTypes torch.onnx.TrainingMode torch.export.ExportedProgram
    torch.export.Dim torch.ao.quantization.QuantStub torch.ao.quantization.DeQuantStub
    torch.distributed.fsdp.FullyShardedDataParallel torch.distributed.fsdp.MixedPrecision
    torch.distributed.fsdp.ShardingStrategy torch.distributed.fsdp.CPUOffload torch.distributed.fsdp.BackwardPrefetch
    torch.distributed.fsdp.StateDictType torch.distributed.fsdp.FullStateDictConfig
    torch.distributed.fsdp.FSDPModule torch.distributed.fsdp.MixedPrecisionPolicy
    torch.distributed.device_mesh.DeviceMesh torch.distributed.tensor.DTensor torch.distributed.tensor.DeviceMesh
    torch.distributed.tensor.Shard torch.distributed.tensor.Replicate torch.distributed.tensor.Partial
    torch.distributed.optim.ZeroRedundancyOptimizer""".split()
FUNCTIONS = """torch.fx.symbolic_trace torch.fx.replace_pattern torch.fx.map_arg
    torch.onnx.export torch.onnx._export torch.onnx.dynamo_export
    torch.onnx.register_custom_op_symbolic torch.onnx.load torch.export.export torch.export.save torch.export.load
    torch.export.export_for_training torch.ao.quantization.prepare torch.ao.quantization.convert
    torch.ao.quantization.quantize_dynamic torch.ao.quantization.prepare_qat
    torch.ao.quantization.get_default_qconfig torch.distributed.fsdp.fully_shard
    torch.distributed.device_mesh.init_device_mesh torch.distributed.tensor.distribute_tensor
    torch.distributed.tensor.distribute_module torch.hub.load_from_github""".split()


class Space:
    """The names of one public module."""


def spaces() -> dict[str, Space]:
    """What stands for each public module, by its path with underscores."""
    answers: dict[str, Space] = {}
    for names, make in ((CLASSES, kind), (FUNCTIONS, function)):
        for name in names:
            path, _, last = name.removeprefix("torch.").rpartition(".")
            setattr(answers.setdefault(path.replace(".", "_"), Space()), last, make(name))
    return answers


_SPACES = spaces()


def wrap(fn_or_name: Any) -> Any:
    """The function itself: `torch.fx.wrap` marks leaves of traces, of which there are none."""
    return fn_or_name


def is_in_onnx_export() -> bool:
    """False."""
    return False


def __getattr__(name: str) -> Any:
    if name in _SPACES:
        return _SPACES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
