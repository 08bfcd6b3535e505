"""What `import torch.random` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor import random as _random
from lazytensor.functions import randomness as _randomness

_NAMES = "fork_rng get_rng_state initial_seed seed set_rng_state"
globals().update({name: getattr(_randomness, name) for name in _NAMES.split()})
default_generator, manual_seed = _random.default_generator, _random.manual_seed
manifest.explain("torch.random", sys.modules[__name__])
