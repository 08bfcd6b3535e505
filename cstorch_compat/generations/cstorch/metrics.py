"""What `cerebras.pytorch.metrics` offers."""

import sys

from cstorch_compat.metrics.class_metrics import (
    DiceCoefficientMetric,
    FBetaScoreMetric,
    MeanIOUMetric,
    MeanPerClassAccuracyMetric,
)
from cstorch_compat.metrics.metric import (
    AccuracyMetric,
    MeanMetric,
    Metric,
    PerplexityMetric,
    get_all_metrics,
)
from cstorch_compat.metrics.rank_metrics import AUCMetric, PrecisionAtKMetric, RecallAtKMetric
from cstorch_compat.names import manifest

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
