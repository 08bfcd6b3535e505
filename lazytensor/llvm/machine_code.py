"""Compile LLVM IR to machine code for this process, and keep it on disk between runs.

Importing this module imports llvmlite.
"""

import functools
import hashlib
import pathlib
import sys
import threading
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from lazytensor.llvm.bound_code import Kernel
from lazytensor.llvm.emit import kernel_text
from lazytensor.llvm.number_types import Unknown
from lazytensor.llvm.thread_instructions import way_to_wait
from lazytensor.system import private_files

_SPEED = 3
_lock = threading.Lock()


def load(source: str, identity: str, kernel: str = "kernel") -> Kernel:
    """Return the compiled function `kernel` of a module text, from the disk cache if it is there.

    Otherwise compile it and write it to the cache. `identity` must identify the text and everything that it imports; it
    is part of the cache key. Raise Unknown for what the kernel language does not support.
    """
    name = "native_" + hashlib.blake2b(identity.encode() + _surroundings(), digest_size=16).hexdigest()
    with _lock:  # the process has one LLVM engine
        data = private_files.read_kernel(f"{name}.kernel")
        if data is None:
            text, kinds = kernel_text(source, name, kernel)
            data = ",".join(kinds).encode() + b"\n" + _object(text)
            private_files.write_kernel(f"{name}.kernel", data)
        kinds_text, _, code = data.partition(b"\n")
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return Kernel(engine.get_function_address(name), tuple(kinds_text.decode().split(",")))


def _object(text: str) -> bytes:
    """Return LLVM text optimized and compiled to an object file for this processor.

    Raise Unknown if it is not valid.
    """
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:  # for example, a variable that is not assigned on every path to its use
        raise Unknown(str(error)) from error
    machine = _machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=_SPEED)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


@functools.cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=_SPEED,
        codemodel="jitdefault",
        jit=True,
    )


@functools.cache
def _engine() -> Any:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())


@functools.cache
def _surroundings() -> bytes:
    """Return a digest of what machine code depends on besides `identity`: LLVM, the processor, the system and how its
    threads wait, and the compiler's files.
    """
    own = b"".join(p.read_bytes() for p in sorted(pathlib.Path(__file__).parent.glob("*.py")))
    features = llvm.get_host_cpu_features().flatten()
    facts = llvmlite.__version__, llvm.get_host_cpu_name(), features, sys.platform, way_to_wait()
    return hashlib.blake2b(repr(facts).encode() + own).digest()
