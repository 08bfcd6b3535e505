"""github.com/rtqichen/torchdiffeq, in the folder torchdiffeq-repo (needs scipy, scikit-learn, matplotlib): examples.

Each example runs as it is, with less data and few iterations. `bouncing_ball` prints no numbers, so its times of
collisions are printed at its end.
"""

import os
import runpy
import sys

import matplotlib
import numpy as np
import torch

matplotlib.use("agg")
FOLDER = os.path.join(os.environ["PROJECTS"], "torchdiffeq-repo", "examples")
sys.path.insert(0, os.path.dirname(FOLDER))
EXAMPLES = {
    "ode_demo": "--niters 5 --test_freq 1 --data_size 100",
    "ode_demo --adjoint": "--niters 5 --test_freq 1 --data_size 100 --adjoint",
    "latent_ode": "--niters 5",
    "cnf": "--niters 5 --num_samples 64 --width 16",
    "cnf --adjoint": "--niters 5 --num_samples 64 --width 16 --adjoint",
    "bouncing_ball": "3",
    "bouncing_ball --adjoint": "3 --adjoint",
}
chosen = sys.argv[1:]


for name, arguments in EXAMPLES.items():
    if chosen and name not in chosen:
        continue
    torch.manual_seed(0)
    np.random.seed(0)
    torch.set_default_dtype(torch.float32)
    print(name)
    sys.argv = [name, *arguments.split()]
    space = runpy.run_path(os.path.join(FOLDER, name.split()[0] + ".py"), run_name="__main__")
    for value in space.get("event_times", ()):
        print(name, float(value))
