"""Record results and gradients of functions of half tensors, where PyTorch is installed.

Run `record_half_gradients.py > half_gradients.json` in an environment with PyTorch 2.13.0.
`tests/lazytensor/functional/test_half_gradients.py` follows the file.
"""

import json
import math

import torch
from half_calls import CALLS


def record(name, dtype):
    x = torch.tensor([[3 * math.sin(0.7 + 1.3 * k + 2.1 * r) for k in range(6)] for r in range(4)]).to(dtype)
    x.requires_grad_()
    y = CALLS[name](torch, x)
    g = torch.tensor([math.cos(0.4 + 0.9 * k) for k in range(y.numel())]).to(dtype).reshape(y.shape)
    (gradient,) = torch.autograd.grad(y, x, g)
    return {"x": x.tolist(), "g": g.tolist(), "y": y.tolist(), "gradient": gradient.tolist()}


if __name__ == "__main__":
    types = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    rows = {f"{name} {label}": record(name, dtype) for name in CALLS for label, dtype in types.items()}
    print(json.dumps(rows, indent=None, separators=(",", ":")).replace('},"', '},\n"'))
