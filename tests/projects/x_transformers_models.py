"""x-transformers (pip, with einops, einx, loguru, frozendict, sympy): language models with its options."""

import sys

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper, XTransformer

OPTIONS = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True, "use_rmsnorm": True, "ff_glu": True},
    "alibi": {"alibi_pos_bias": True, "attn_num_mem_kv": 4, "ff_swish": True},
    "relative": {"rel_pos_bias": True, "sandwich_norm": True, "attn_qk_norm": True},
    "few heads": {"attn_kv_heads": 2, "ff_relu_squared": True},
    "shift": {"shift_tokens": 1, "scale_residual": True, "attn_gate_values": True, "macaron": True},
    "flash": {"attn_flash": True, "residual_attn": False},
}
for name, options in OPTIONS.items():
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    torch.manual_seed(0)
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=40, max_seq_len=64, attn_layers=layers))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 40, (2, 33))
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        print(name, loss.item())
if len(sys.argv) == 1 or "encoder and decoder" in sys.argv[1:]:
    torch.manual_seed(0)
    model = XTransformer(
        dim=32, enc_num_tokens=40, enc_depth=2, enc_heads=4, enc_max_seq_len=32,
        dec_num_tokens=40, dec_depth=2, dec_heads=4, dec_max_seq_len=32, tie_token_emb=True,
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    source, target = torch.randint(0, 40, (2, 20)), torch.randint(0, 40, (2, 24))
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(source, target, mask=torch.ones(2, 20).bool())
        loss.backward()
        optimizer.step()
        print("encoder and decoder", loss.item())
