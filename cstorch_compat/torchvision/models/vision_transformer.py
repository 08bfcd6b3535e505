"""Vision transformers: Dosovitskiy et al., arXiv:2010.11929."""

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from cstorch_compat.torchvision.models.weights import BUILDER_DOC, load_weights, set_num_classes
from lazytensor import nn
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.functional.creation import empty, zeros
from lazytensor.functional.joining_and_splitting import cat
from lazytensor.functional.views import expand, permute, reshape
from lazytensor.nn import init


class MLPBlock(nn.Sequential):
    """Two linear layers with GELU and dropout."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float):
        super().__init__(
            nn.Linear(in_dim, mlp_dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(mlp_dim, in_dim), nn.Dropout(dropout)
        )
        for m in self.modules():
            if isinstance(m, nn.Linear):
                init.xavier_uniform_(m.weight)
                init.normal_(m.bias, std=1e-6)


class EncoderBlock(nn.Module):
    """A transformer block: self-attention and an MLP, each after a normalization and with a residual connection."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module],
    ):
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        """Return [N, S, E] for an input [N, S, E]."""
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """The transformer encoder: position embeddings, blocks and a final normalization."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module],
    ):
        super().__init__()
        self.pos_embedding = nn.Parameter(empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        each = (num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        # Names as in the published weights.
        blocks = OrderedDict((f"encoder_layer_{i}", EncoderBlock(*each)) for i in range(num_layers))
        self.layers = nn.Sequential(blocks)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        """Return [N, S, E] for an input [N, S, E]."""
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))  # type: ignore[no-any-return]


class VisionTransformer(nn.Module):
    """A vision transformer: image patches and a class token, whose final state is classified by linear layers.

    - `image_size`, `patch_size`: in pixels; raises ValueError unless the patch size divides the image size.
    - `num_layers`, `num_heads`, `hidden_dim`, `mlp_dim`: the dimensions of the encoder.
    - `representation_size`: the width of an additional linear layer before the classifier, or None.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Callable[..., nn.Module] = partial(nn.LayerNorm, eps=1e-6),
    ):
        super().__init__()
        if image_size % patch_size:
            raise OptionInvalid(
                f"Input shape indivisible by patch size! Got {image_size} and {patch_size}.",
                where=source.where(),
                hint="Choose a divisor of image_size as patch_size.",
            )
        self.image_size, self.patch_size, self.hidden_dim, self.mlp_dim = image_size, patch_size, hidden_dim, mlp_dim
        self.attention_dropout, self.dropout, self.num_classes = attention_dropout, dropout, num_classes
        self.representation_size, self.norm_layer = representation_size, norm_layer
        self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        sizes = (self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim)
        self.encoder = Encoder(*sizes, dropout, attention_dropout, norm_layer)
        self.heads = nn.Sequential(self._heads(hidden_dim, representation_size, num_classes))
        self._initialize()

    def _heads(self, width: int, representation_size: int | None, classes: int) -> "OrderedDict[str, nn.Module]":
        if representation_size is None:
            return OrderedDict(head=nn.Linear(width, classes))
        before = nn.Linear(width, representation_size)
        return OrderedDict(pre_logits=before, act=nn.Tanh(), head=nn.Linear(representation_size, classes))

    def _initialize(self) -> None:
        """Set the initial weights of the patch projection (truncated normal) and the classifier (zeros).

        A hidden layer of the classifier, if there is one, gets truncated normal weights too. Biases are zero.
        """
        conv = self.conv_proj
        fan_in = conv.in_channels * conv.kernel_size[0] * conv.kernel_size[1]
        init.trunc_normal_(conv.weight, std=math.sqrt(1 / fan_in))
        init.zeros_(conv.bias)
        if hasattr(self.heads, "pre_logits"):
            before = self.heads.pre_logits
            init.trunc_normal_(before.weight, std=math.sqrt(1 / before.in_features))
            init.zeros_(before.bias)
        init.zeros_(self.heads.head.weight)
        init.zeros_(self.heads.head.bias)

    def _process_input(self, x: Tensor) -> Tensor:
        """Return the patches of images [N, 3, H, W] as [N, patches, hidden_dim].

        Raises ValueError unless H and W are `image_size`.
        """
        n, _, height, width = x.spec.shape
        if (height, width) != (self.image_size, self.image_size):
            raise OptionInvalid(
                f"Wrong image height or width! Expected {self.image_size} but got {height} x {width}!",
                where=source.where(),
                hint="Resize the images to image_size.",
            )
        patches = self.conv_proj(x)
        return permute(reshape(patches, (n, self.hidden_dim, -1)), 0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [N, classes] for images [N, 3, H, W]. Raises ValueError unless H and W are `image_size`."""
        x = self._process_input(x)
        # Prepend the class token, whose final state is classified.
        x = cat([expand(self.class_token, x.spec.shape[0], -1, -1), x], 1)
        return self.heads(self.encoder(x)[:, 0])  # type: ignore[no-any-return]


def _make_builder(name: str, kind: str, patch: int, layers: int, heads: int, width: int) -> Callable[..., Any]:
    """Return the function `name` that creates a vision transformer and loads weights if requested.

    `patch` is the side of a patch in pixels, and `width` the hidden dimension; the MLP is four times as wide. The image
    size is 224 unless the option `image_size` is given. `kind` names the weights of the architecture.
    """

    def build(
        *, weights: Any = None, progress: bool = True, pretrained: bool = False, **options: Any
    ) -> VisionTransformer:
        given = {"image_size": 224, **set_num_classes(weights, pretrained, options)}
        model = VisionTransformer(given.pop("image_size"), patch, layers, heads, width, 4 * width, **given)
        return load_weights(model, kind, weights, pretrained)  # type: ignore[return-value]

    build.__name__ = build.__qualname__ = name
    build.__doc__ = BUILDER_DOC.format(kind=kind)
    return build


vit_b_16 = _make_builder("vit_b_16", "ViT_B_16", 16, 12, 12, 768)
vit_b_32 = _make_builder("vit_b_32", "ViT_B_32", 32, 12, 12, 768)
vit_l_16 = _make_builder("vit_l_16", "ViT_L_16", 16, 24, 16, 1024)
vit_l_32 = _make_builder("vit_l_32", "ViT_L_32", 32, 24, 16, 1024)
