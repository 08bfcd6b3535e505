"""Records what PyTorch's CPU build answers to questions about devices that it has not.

Run in an environment with torch:

    python tests/golden/record_cpu_build.py > cstorch_compat/torch/backends/cpu_build.txt

What is neither a plain value nor a function that gives or raises one is named on stderr: it is written by hand. The
test that follows it is tests/cstorch_compat/torch/backends/test_cpu_build.py.
"""

import ast
import builtins
import importlib
import inspect
import sys
import warnings

import torch

MODULES = """torch.accelerator torch.cuda torch.cuda.memory torch.cuda.random torch.cuda.nccl torch.cuda.nvtx torch.cpu
    torch.mps torch.xpu torch.mtia torch.backends torch.backends.cuda torch.backends.cudnn torch.backends.mha
    torch.backends.mkl torch.backends.mkldnn torch.backends.mps torch.backends.nnpack torch.backends.openmp
    torch.backends.opt_einsum torch.backends.quantized torch.backends.cusparselt torch.backends.xnnpack
    torch.backends.cpu torch.backends.kleidiai""".split()
PLACES = {"torch.backends.cuda.matmul": ("torch.backends.cuda", "matmul")}
SETTINGS = """allow_tf32 allow_fp16_reduced_precision_reduction allow_bf16_reduced_precision_reduction
    allow_fp16_accumulation fp32_precision""".split()
ARGUMENTS = ((), (0,), (0, 0), (False,), ([],))
LEFT_OUT = {"TYPE_CHECKING", "PYTORCH_RELEASES_CODE_CC"}


def members(path: str) -> dict[str, object]:
    if path in PLACES:
        home, name = PLACES[path]
        thing = getattr(importlib.import_module(home), name)
        return {n: getattr(thing, n) for n in SETTINGS if hasattr(thing, n)}
    module = importlib.import_module(path)
    return {
        n: getattr(module, n)
        for n in sorted({*dir(module), *dir(type(module)), *dir(vars(module).get("m"))})
        if not n.startswith("_")
    }


def answer(function: object) -> str | None:
    error: Exception | None = None
    for args in ARGUMENTS:
        try:
            value = function(*args)
        except TypeError as e:
            error = error or e
            continue
        except Exception as e:
            message = str(e).splitlines()[0]
            if "expects a bool" in message:
                continue
            return f"raises {type(e).__name__}: {message!r}" if hasattr(builtins, type(e).__name__) else None
        return repr(value) if is_plain(value) else None
    return None


def is_plain(value: object) -> bool:
    try:
        return ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError, TypeError):
        return False


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"# Written by tests/golden/record_cpu_build.py with PyTorch {torch.__version__}.")
    for path in sorted([*MODULES, *PLACES]):
        lines = []
        for name, value in members(path).items():
            if inspect.ismodule(value) or name in LEFT_OUT:
                continue
            home = getattr(value, "__module__", None) or path
            said = None
            if inspect.isroutine(value) or type(value).__name__ == "_lru_cache_wrapper":
                if home.startswith("torch"):
                    said = answer(value)
                    lines += [f"    {name}() {said}"] if said is not None else []
            elif is_plain(value):
                said = repr(value)
                lines.append(f"    {name} = {said}")
            if said is None:
                print(path, name, type(value).__name__, file=sys.stderr)
        if lines:
            print(path, *lines, sep="\n")


if __name__ == "__main__":
    main()
