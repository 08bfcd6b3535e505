"""Record the state dict of a model of five kinds of layers built after `torch.manual_seed(0)`: initial_model.json.

    python tests/golden/record_initial_model.py        # in an environment with torch and numpy

Bit-exact entries are kept as CRC-32 of their bytes; the embedding, which is normal, as its values.
"""

import json
import pathlib
import zlib

import numpy as np
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.conv, self.embedding = nn.Linear(7, 5), nn.Conv2d(3, 4, 3), nn.Embedding(11, 6)
        self.lstm, self.attention = nn.LSTM(6, 5, 2), nn.MultiheadAttention(8, 2)


def main():
    torch.manual_seed(0)
    state = {k: np.ascontiguousarray(v.numpy()) for k, v in Model().state_dict().items()}
    record = {
        "torch": torch.__version__,
        "crc": {k: zlib.crc32(v.tobytes()) for k, v in state.items() if k != "embedding.weight"},
        "embedding.weight": state["embedding.weight"].astype(float).tolist(),
    }
    (pathlib.Path(__file__).parent / "initial_model.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
