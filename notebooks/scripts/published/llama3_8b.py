"""Llama3-8B with the Cerebras PyTorch API: the model of llama2_7b.py with grouped keys and values.

python llama3_8b.py [--layers N] [--length N] [--batch_size N] [--steps N]

Published (github.com/argonne-lcf, log of October 2025): 19.37 samples/s on one CS-3 with release 2.5, batch 960; weight
streaming. Extents: 32 layers, d 4096, 32 heads, 8 of keys and values, ff 14336, vocabulary 128256; the configuration's
name has 2,048 tokens.
Assumed: no clipping of gradients. The tokens here are random.
"""

from llama2_7b import Llama
from training import options, run


def main():
    extents = {"layers": 32, "width": 4096, "heads": 32, "kv_heads": 8, "filter": 14336, "vocabulary": 128256}
    args = options(**extents, length=2048, rotary_base=500_000, batch_size=960)
    run(Llama, args, lr=3e-4, weight_decay=0.1)


if __name__ == "__main__":
    main()
