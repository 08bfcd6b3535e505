"""A model built after `manual_seed(0)` starts from PyTorch's numbers."""

import json
import pathlib
import zlib

import numpy as np

import lazytensor as lt
from lazytensor import nn

RECORD = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "initial_model.json").read_text())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.conv, self.embedding = nn.Linear(7, 5), nn.Conv2d(3, 4, 3), nn.Embedding(11, 6)
        self.lstm, self.attention = nn.LSTM(6, 5, 2), nn.MultiheadAttention(8, 2)


def test_five_kinds_of_layers_start_as_in_pytorch():
    lt.manual_seed(0)
    state = {k: np.ascontiguousarray(v.numpy()) for k, v in Model().state_dict().items()}
    drawn = state.pop("embedding.weight")
    assert {k: zlib.crc32(v.tobytes()) for k, v in state.items()} == RECORD["crc"]
    np.testing.assert_array_max_ulp(drawn, np.array(RECORD["embedding.weight"], np.float32), 4)
