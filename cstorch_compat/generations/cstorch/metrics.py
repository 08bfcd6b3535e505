"""What `cerebras.pytorch.metrics` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.class_metrics import (
    DiceCoefficientMetric,
    FBetaScoreMetric,
    MeanIOUMetric,
    MeanPerClassAccuracyMetric,
)
from cstorch_compat.common.metrics import (
    AccuracyMetric,
    MeanMetric,
    Metric,
    PerplexityMetric,
    get_all_metrics,
)
from cstorch_compat.common.rank_metrics import AUCMetric, PrecisionAtKMetric, RecallAtKMetric

__all__ = [
    "AUCMetric",
    "AccuracyMetric",
    "DiceCoefficientMetric",
    "FBetaScoreMetric",
    "MeanIOUMetric",
    "MeanMetric",
    "MeanPerClassAccuracyMetric",
    "Metric",
    "PerplexityMetric",
    "PrecisionAtKMetric",
    "RecallAtKMetric",
    "get_all_metrics",
]
manifest.explain("cerebras.pytorch.metrics", sys.modules[__name__])
