"""What `cerebras.pytorch.metrics` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.metrics import AccuracyMetric, Metric, compute_all_metrics, get_all_metrics

__all__ = ["AccuracyMetric", "Metric", "compute_all_metrics", "get_all_metrics"]
manifest.explain("cerebras.pytorch.metrics", sys.modules[__name__])
