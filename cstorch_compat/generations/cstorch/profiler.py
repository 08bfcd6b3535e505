"""What `cerebras.pytorch.profiler` offers: a trace of the wafer's kernels."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.watch.op_profile import ProfilerRegistry, profile, schedule, tensorboard_trace_handler

__all__ = ["ProfilerRegistry", "profile", "schedule", "tensorboard_trace_handler"]
manifest.explain("cerebras.pytorch.profiler", sys.modules[__name__])
