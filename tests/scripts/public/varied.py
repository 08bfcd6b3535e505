"""Runs a script on PyTorch with other roundings: how far a run is from itself where it is rounded otherwise.

    python varied.py VARIANT script.py [arguments]

VARIANT is `threads` (two of them, so that sums are split), `plain` (without the library oneDNN, so that convolutions
add up in another order) or a number N: every weight is one unit in the last place above or below its start, drawn
with the seed N.
"""

import runpy
import sys

import torch


def nudge(seed):
    """Move weights by one unit in the last place when an optimizer takes them; no draw of the script changes."""
    generator = torch.Generator().manual_seed(seed)
    add = torch.optim.Optimizer.add_param_group

    def add_nudged(self, group):
        add(self, group)
        for p in self.param_groups[-1]["params"]:
            up = torch.rand(p.shape, generator=generator) < 0.5
            ends = torch.where(up, torch.inf, -torch.inf).to(p.dtype)
            p.data.copy_(torch.nextafter(p.data, ends))

    torch.optim.Optimizer.add_param_group = add_nudged


def main(variant, script, *arguments):
    """Set the variant and run the script as it stands."""
    if variant == "threads":
        torch.set_num_threads(2)
    elif variant == "plain":
        torch.backends.mkldnn.set_flags(False)
    else:
        nudge(int(variant))
    sys.argv = [script, *arguments]
    sys.path[0] = "."
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
