"""Multi-head attention, and the transformer built from it (Vaswani et al. 2017), as modules."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.autocast import half_type, host_half_type
from lazytensor.core.dtype import DType, bool_, float32
from lazytensor.core.tensor import CPU, Tensor, from_array, is_grad_enabled
from lazytensor.errors import OperandInvalid, OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.functional.activation import gelu, relu
from lazytensor.functional.attention import attention_weights
from lazytensor.functional.creation import empty, zeros
from lazytensor.functional.dropout import dropout
from lazytensor.functional.joining_and_splitting import cat
from lazytensor.functional.matmul import linear, matmul
from lazytensor.functional.padding_and_shuffles import pad
from lazytensor.functional.views import reshape, slice_dim, squeeze, transpose, unsqueeze, view
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.activation import GELU, ReLU
from lazytensor.nn.container import ModuleList
from lazytensor.nn.dropout import Dropout
from lazytensor.nn.linear import Linear
from lazytensor.nn.module import Module, Parameter
from lazytensor.nn.normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu}


# The name appears in printed models, and scripts refer to it.
class NonDynamicallyQuantizableLinear(Linear):
    """A Linear layer with the class name that PyTorch uses for the output projection of attention.

    >>> import lazytensor as lt
    >>> isinstance(lt.nn.MultiheadAttention(4, 2).out_proj, lt.nn.Linear)
    True
    """


class MultiheadAttention(Module):
    """Attention with `num_heads` heads of `embed_dim` / `num_heads` features each.

    - `embed_dim`: features of query and output, divisible by `num_heads`.
    - `dropout`: probability of dropout of attention weights in training mode.
    - `bias`: whether projections have a bias.
    - `add_bias_kv`: append a learned key and value.
    - `add_zero_attn`: append a key and value of zeros.
    - `kdim`, `vdim`: features of key and value, `embed_dim` by default.
    - `batch_first`: tensors are [N, L, E] rather than [L, N, E].

    The projections of query, key and value are one matrix if their features agree. Raises ValueError for sizes that are
    not positive, and AssertionError if `num_heads` does not divide `embed_dim`.

    >>> import lazytensor as lt
    >>> lt.nn.MultiheadAttention(8, 2, batch_first=True)(*[lt.ones(1, 5, 8)] * 3)[0].shape
    lazytensor.Size([1, 5, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise OptionInvalid(
                f"embed_dim and num_heads must be greater than 0, got {embed_dim} and {num_heads} instead",
                where=source.where(),
                hint="Pass positive numbers.",
            )
        if embed_dim % num_heads:
            raise OperandInvalid(
                f"embed_dim must be divisible by num_heads: {embed_dim} and {num_heads}",
                where=source.where(),
                hint="Choose a divisor of embed_dim as num_heads.",
            )
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn
        # PyTorch's attribute, which programs that rewrite models read.
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        shapes: dict[str, Any] = dict.fromkeys(("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_weight"))
        if self._qkv_same_embed_dim:
            shapes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        else:
            widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
            shapes |= {name: (embed_dim, width) for name, width in widths.items()}
        # PyTorch registers existing weights before the names of missing ones.
        shapes = {k: v for k, v in shapes.items() if v} | {k: v for k, v in shapes.items() if not v}
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        for name, shape in shapes.items():
            self.register_parameter(name, Parameter(empty(*shape, device=device, dtype=dtype)) if shape else None)
        # Its weight is drawn here, before the input projections, and kept: only its bias is reset.
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            own = Parameter(empty(1, 1, embed_dim, device=device, dtype=dtype)) if add_bias_kv else None
            self.register_parameter(name, own)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                # The combined matrix is drawn as one: its fan_out is 3 E, so its bound is smaller than for three
                # matrices.
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for own in (self.bias_k, self.bias_v):
            if own is not None:
                init.xavier_normal_(own)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and, if `need_weights` is true, the attention weights; else None in their place.

        - `query` [L, N, E], `key` [S, N, kdim], `value` [S, N, vdim]; [N, L, E] with `batch_first`; or without a batch
          dimension.
        - `key_padding_mask` [N, S], `attn_mask` [L, S] or [N * heads, L, S]: a bool mask is true where a key must not
          be attended to; any other mask is added to the scores.
        - `average_attn_weights`: average the weights over the heads: [N, L, S]; else [N, heads, L, S].
        - `is_causal`: a hint that `attn_mask` is causal. It changes nothing.

        The weights are those after dropout. Raises RuntimeError if `is_causal` is given without `attn_mask`.
        """
        # A hint about the mask, which only PyTorch's fast path needs.
        if is_causal and attn_mask is None:
            raise ShapeError(
                "Need attn_mask if specifying the is_causal hint.",
                where=source.where(),
                hint="Pass attn_mask too, or omit is_causal.",
            )
        # Internally there is always a batch dimension, and it is the first.
        alone = query.ndim == 2
        is_fast = not alone and query is key is value and self._is_fast(query, attn_mask, key_padding_mask)
        if alone:
            query, key, value = (unsqueeze(t, 0) for t in (query, key, value))
            key_padding_mask = unsqueeze(key_padding_mask, 0) if key_padding_mask is not None else None
        elif not self.batch_first:
            query, key, value = (transpose(t, 0, 1) for t in (query, key, value))
        q, k, v = self._projected(query, key, value)
        k, v, mask = self._extended(k, v, self._mask(attn_mask, key_padding_mask, q))
        heads = [self._heads(t) for t in (q, k, v)]
        weights = attention_weights(heads[0], heads[1], mask, is_safe=not need_weights and not is_fast)
        # PyTorch returns the weights after dropout, so they need not sum to 1.
        if self.dropout and self.training:
            weights = dropout(weights, self.dropout)
        seen = transpose(matmul(weights, heads[2]), 1, 2)
        out = self.out_proj(reshape(seen, (*q.spec.shape[:2], self.embed_dim)))
        out = squeeze(out, 0) if alone else out if self.batch_first else transpose(out, 0, 1)
        if not need_weights:
            return out, None
        weights = reduction.mean(weights, 1) if average_attn_weights else weights
        return out, squeeze(weights, 0) if alone else weights

    def _is_fast(self, query: Tensor, *masks: Tensor | None) -> bool:
        """Return whether PyTorch uses its fast path of self-attention, which gives NaN for rows that are fully masked.

        It needs `batch_first`, evaluation mode without gradients, equal features, a bias, no appended keys, an even
        number of heads, and masks that are bool or None.
        """
        is_plain = self._qkv_same_embed_dim and self.in_proj_bias is not None and self.bias_k is None
        return (
            is_plain
            and all(mask is None or mask.dtype is bool_ for mask in masks)
            and self.batch_first
            and not self.training
            and not self.add_zero_attn
            and self.num_heads % 2 == 0
            and not _is_differentiated(self, query)
        )

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Return the projections of query, key and value: three tensors [N, length, embed_dim]."""
        e, bias = self.embed_dim, self.in_proj_bias
        if self._qkv_same_embed_dim:
            w = self.in_proj_weight
            # Self-attention, detected by identity as in PyTorch: one product for all three.
            if query is key is value:
                both = linear(query, w, bias)
                return [slice_dim(both, 2, i * e, (i + 1) * e) for i in range(3)]
            weights = [w[i * e : (i + 1) * e] for i in range(3)]
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases = [None if bias is None else bias[i * e : (i + 1) * e] for i in range(3)]
        return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]

    def _mask(self, attn_mask: Tensor | None, padding: Tensor | None, like: Tensor) -> Tensor | None:
        """Return both masks combined as one that is added to the scores, or None without masks.

        A bool mask becomes -inf where it is true; any other mask is added as it is. The result broadcasts to [N, heads,
        L, S].
        """
        # True excludes a key here, while in scaled_dot_product_attention it includes it, as in PyTorch.
        mask = None
        if attn_mask is not None:
            mask = _additive_mask(attn_mask, like)
            # A mask for each head is [N * heads, L, S], with the heads of a sample next to each other.
            if attn_mask.ndim == 3:
                mask = view(mask, (-1, self.num_heads, *attn_mask.spec.shape[1:]))
        if padding is not None:
            hidden = unsqueeze(unsqueeze(_additive_mask(padding, like), 1), 1)
            mask = hidden if mask is None else mask + hidden
        return mask

    def _extended(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return keys, values and mask with the learned and the zero key and value appended, if configured.

        Appended positions are never masked.
        """
        n = k.spec.shape[0]
        more = [self.bias_k is not None, self.add_zero_attn]
        if more[0]:
            k = cat([k, self.bias_k.expand(n, 1, -1)], 1)
            v = cat([v, self.bias_v.expand(n, 1, -1)], 1)
        if more[1]:
            # A position without effect: its value is zero, its score exp(0).
            nothing = zeros(n, 1, self.embed_dim, dtype=k.dtype, device=k.device)
            k, v = cat([k, nothing], 1), cat([v, nothing], 1)
        # Appended positions are never masked.
        return k, v, pad(mask, (0, sum(more))) if mask is not None and any(more) else mask

    def _heads(self, x: Tensor) -> Tensor:
        """Return [N, L, E] split into heads: [N, heads, L, E / heads]."""
        return transpose(reshape(x, (*x.spec.shape[:2], self.num_heads, self.head_dim)), 1, 2)


def _is_differentiated(module: Module, x: Tensor) -> bool:
    """Return whether a gradient may be computed for the output of `module` for input `x`."""
    return is_grad_enabled() and (x.requires_grad or any(p.requires_grad for p in module.parameters()))


def _additive_mask(mask: Tensor, like: Tensor) -> Tensor:
    """Return a bool mask as numbers to add to the scores: -inf where it is true, else 0. Other masks are unchanged."""
    # A mask of numbers is added as it is.
    if mask.dtype is not bool_:
        return mask
    return pw.where(mask, -np.inf, zeros(1, dtype=like.dtype, device=like.device))


def _activation_function(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in _ACTIVATIONS:
        raise ShapeError(
            f"activation should be relu/gelu, not {activation}",
            where=source.where(),
            hint='Pass "relu" or "gelu", or a function.',
        )
    return _ACTIVATIONS[activation]


class TransformerEncoderLayer(Module):
    """A transformer layer: self-attention and a feed-forward network, each with a residual connection and a LayerNorm.

    - `d_model`, `nhead`: features and attention heads.
    - `dim_feedforward`: features of the hidden layer.
    - `dropout`: probability of dropout in training mode.
    - `activation`: "relu", "gelu" or a function.
    - `layer_norm_eps`: eps of the LayerNorm layers.
    - `batch_first`: tensors are [N, L, d_model] rather than [L, N, d_model].
    - `norm_first`: normalize before each part rather than after its residual sum.
    - `bias`: whether Linear and LayerNorm layers have a bias.

    Raises RuntimeError for another activation name.

    >>> import lazytensor as lt
    >>> lt.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(lt.ones(1, 5, 8)).shape
    lazytensor.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **factory)
        # The order of the members is that of PyTorch's keys and of its random draws.
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation_function(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the layer, in the shape of `src`.

        `src_mask` and `src_key_padding_mask` are the `attn_mask` and `key_padding_mask` of the attention.
        """
        if self.norm_first:
            x = src + self._attend(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            return x + self._feed(self.norm2(x))
        x = self.norm1(src + self._attend(src, src_mask, src_key_padding_mask, is_causal))
        normed: Tensor = self.norm2(x + self._feed(x))
        return normed

    def _attend(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        """Return the self-attention of `x` after dropout."""
        # Outside its fast path, PyTorch's layer converts masks to numbers, for which attention has no fast path.
        if padding is not None and not (_is_nestable(self) and not self.training and not _is_differentiated(self, x)):
            padding = _additive_mask(padding, x)
        out, _ = self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
        dropped: Tensor = self.dropout1(out)
        return dropped

    def _feed(self, x: Tensor) -> Tensor:
        fed: Tensor = self.dropout2(
            self.linear2(self.dropout(source.call_user_function(self.activation, self.linear1(x))))
        )
        return fed


class TransformerDecoderLayer(Module):
    """A transformer layer: self-attention, attention to the encoder's output, and a feed-forward network.

    Each has a residual connection and a LayerNorm. The parameters are those of `TransformerEncoderLayer`.

    >>> import lazytensor as lt
    >>> layer = lt.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> layer(lt.ones(1, 3, 8), lt.ones(1, 4, 8)).shape
    lazytensor.Size([1, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory)
        self.norm_first = norm_first
        for name in ("norm1", "norm2", "norm3"):
            self.add_module(name, LayerNorm(d_model, layer_norm_eps, bias=bias, **factory))
        for name in ("dropout1", "dropout2", "dropout3"):
            self.add_module(name, Dropout(dropout))
        self.activation = _activation_function(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the layer, in the shape of `tgt`.

        `memory` is the output of the encoder. Masks named `tgt_` apply to the self-attention, those named `memory_` to
        the attention to the encoder's output.
        """

        def own(x: Tensor) -> Any:
            masks: dict[str, Any] = {"attn_mask": tgt_mask, "is_causal": tgt_is_causal}
            return self.dropout1(self.self_attn(x, x, x, tgt_key_padding_mask, need_weights=False, **masks)[0])

        def across(x: Tensor) -> Any:
            masks: dict[str, Any] = {"attn_mask": memory_mask, "is_causal": memory_is_causal}
            padding = memory_key_padding_mask
            return self.dropout2(self.multihead_attn(x, memory, memory, padding, need_weights=False, **masks)[0])

        # Normalization after each residual sum, as in the paper, or before each part, which trains deep stacks better.
        x = tgt
        for part, norm in ((own, self.norm1), (across, self.norm2), (self._feed, self.norm3)):
            x = x + part(norm(x)) if self.norm_first else norm(x + part(x))
        return x

    def _feed(self, x: Tensor) -> Tensor:
        fed: Tensor = self.dropout3(
            self.linear2(self.dropout(source.call_user_function(self.activation, self.linear1(x))))
        )
        return fed


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of `encoder_layer`, and a final `norm` if it is given.

    `enable_nested_tensor` and `mask_check` control the padding of the output as in PyTorch; see `forward`.

    >>> import lazytensor as lt
    >>> layer = lt.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> lt.nn.TransformerEncoder(layer, 2)(lt.ones(1, 3, 8)).shape
    lazytensor.Size([1, 3, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        super().__init__()
        # As in PyTorch, all copies start with the values of the given layer. Transformer draws them again.
        self.layers = ModuleList([deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _is_nestable(encoder_layer) and not encoder_layer.norm_first

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the output of the last layer, in the shape of `src`.

        As in PyTorch, padded positions of the output are 0 in evaluation mode without gradients. This applies if nested
        tensors are enabled, there is no `mask`, and `src_key_padding_mask` has its padding at the end of each row. If
        `mask_check` is false, the last condition is not checked.
        """
        padding = self._padding(src, mask, src_key_padding_mask)
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask if padding is None else padding, bool(is_causal))
        if padding is not None:
            src = pw.where(unsqueeze(padding, -1), 0.0, src)
        return src if self.norm is None else self.norm(src)

    def _padding(self, src: Tensor, mask: Tensor | None, hidden: Tensor | None) -> Tensor | None:
        """Return the positions [N, L] that PyTorch's nested tensors omit, or None if PyTorch uses none.

        They are used only on the CPU, in evaluation mode without gradients and casts, for a batch without `mask`, and
        if the true values of `hidden`, the padding mask, are at the end of each row. The values of `hidden` are read
        for this.
        """
        if hidden is None or mask is not None or src.ndim != 3 or not self.use_nested_tensor or not len(self.layers):
            return None
        layer = self.layers[0]
        if layer.training or half_type() is not None or host_half_type() is not None or src.device is not CPU:
            return None
        if _is_differentiated(layer, src):
            return None
        values = hidden.array("TransformerEncoder") != 0
        at_end = np.arange(values.shape[1]) >= (~values).sum(1, keepdims=True)
        return from_array(at_end) if not self.mask_check or (at_end == values).all() else None


def _is_nestable(layer: Module) -> bool:
    """Return whether PyTorch has a fast path for the encoder layer `layer`."""
    return (
        isinstance(layer, TransformerEncoderLayer)
        and layer.self_attn.batch_first
        and layer.self_attn.in_proj_bias is not None
        and layer.self_attn.num_heads % 2 == 0
        and (layer.activation in (relu, gelu, F.relu, F.gelu) or isinstance(layer.activation, ReLU | GELU))
        and layer.norm1.eps == layer.norm2.eps
    )


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of `decoder_layer`, and a final `norm` if it is given.

    >>> import lazytensor as lt
    >>> layer = lt.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> lt.nn.TransformerDecoder(layer, 2)(lt.ones(1, 3, 8), lt.ones(1, 4, 8)).shape
    lazytensor.Size([1, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = ModuleList([deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Tensor, memory: Tensor, *masks: Tensor | None, **kwargs: Any) -> Tensor:
        """Return the output of the last layer, in the shape of `tgt`.

        `memory` is the output of the encoder. The masks and keyword arguments are those of the layer.
        """
        # A hint of None leaves the layer its default.
        kwargs = {k: v for k, v in kwargs.items() if v is not None or not k.endswith("is_causal")}
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, **kwargs)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """A transformer: an encoder of the source, and a decoder of the target that attends to the encoder's output.

    The layers have the parameters of `TransformerEncoderLayer`. `custom_encoder` and `custom_decoder` replace the
    encoder or the decoder. All matrices are drawn with `xavier_uniform_`.

    >>> import lazytensor as lt
    >>> model = lt.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(lt.ones(1, 4, 8), lt.ones(1, 3, 8)).shape
    lazytensor.Size([1, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        each = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        layer: Module
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*each, **factory)
            last = LayerNorm(d_model, layer_norm_eps, bias=bias, **factory)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, last)
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*each, **factory)
            last = LayerNorm(d_model, layer_norm_eps, bias=bias, **factory)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, last)
        self.decoder = custom_decoder
        # Every matrix is drawn a second time, as in PyTorch, which affects later random numbers.
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        **hints: bool | None,
    ) -> Tensor:
        """Return the output of the decoder for the source `src` and the target `tgt`, in the shape of `tgt`.

        The masks are passed to the layers. The keyword `hints` (`src_is_causal` etc.) are ignored.
        """
        # Hints about causal masks do not change results.
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask)
        decoded: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
        )
        return decoded

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: DType | None = None) -> Tensor:
        """Return an additive causal mask [sz, sz]: -inf above the diagonal, 0 elsewhere, on `device`."""
        # Added to scores: exp(-inf) is 0 for every score.
        mask = from_array(np.triu(np.full((sz, sz), -np.inf), 1), dtype or float32)
        return mask if device is None else mask.to(device)
