"""What `cerebras.pytorch.optim.scheduler` offers: schedules of any setting, which the others are made of."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.optim.curves import (
    ConstantScheduler,
    CosineAnnealingScheduler,
    CosineAnnealingWarmRestartsScheduler,
    CosineDecayScheduler,
    CyclicScheduler,
    ExponentialScheduler,
    InverseExponentialTimeDecayScheduler,
    InverseSquareRootDecayScheduler,
    LambdaScheduler,
    LinearScheduler,
    MultiplicativeScheduler,
    MultiStepScheduler,
    OneCycleScheduler,
    PiecewiseConstantScheduler,
    PolynomialScheduler,
    StepScheduler,
)
from cstorch_compat.optim.schedules import (
    ChainedScheduler,
    ScalePerParamScheduler,
    Scheduler,
    SequentialScheduler,
)

__all__ = [
    "ChainedScheduler",
    "ConstantScheduler",
    "CosineAnnealingScheduler",
    "CosineAnnealingWarmRestartsScheduler",
    "CosineDecayScheduler",
    "CyclicScheduler",
    "ExponentialScheduler",
    "InverseExponentialTimeDecayScheduler",
    "InverseSquareRootDecayScheduler",
    "LambdaScheduler",
    "LinearScheduler",
    "MultiStepScheduler",
    "MultiplicativeScheduler",
    "OneCycleScheduler",
    "PiecewiseConstantScheduler",
    "PolynomialScheduler",
    "ScalePerParamScheduler",
    "Scheduler",
    "SequentialScheduler",
    "StepScheduler",
]
manifest.explain("cerebras.pytorch.optim.scheduler", sys.modules[__name__])
