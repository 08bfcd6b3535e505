"""Extents of a decoder-only model, read off the program of a step that calls it."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from lazytensor.errors import LazyError
from lazytensor.ir.program import Instr, Program
from wse_sim.serving.decoder import Decoder

_HINT = "Pass the config.json of the model, or a preset, instead of the script."


@dataclass(frozen=True)
class _Product:
    """A product of activations and a weight: `inner` channels to `outer` channels.

    - `index`: index of the instruction
    - `weight`: index of the weight's buffer
    """

    index: int
    inner: int
    outer: int
    weight: int


@dataclass(frozen=True)
class _Attention:
    """The attention of a layer: the index of its product with the values, its `heads`, and the channels of a head."""

    values: int
    heads: int
    head_size: int


def decoder_of_program(program: Program) -> Decoder:
    """Return the extents of the decoder-only model in the forward part of `program`.

    Layers are counted by their attention, and the products with weights of a layer give its other extents. Raises
    LazyError if there is no embedding, no attention or no product that gives logits, if layers differ, and if a layer
    has other products than those of attention and an MLP of two or three matrices.
    """
    forward = [(i, instr) for i, instr in enumerate(program.instrs) if instr.direction == "forward"]
    sources = _weights_of_buffers(program, forward)
    table, vocabulary, width = _embedding(program, forward, sources)
    products = list(_products(program, forward, sources))
    attentions = _attentions(program, forward, sources)
    head = next((p for p in reversed(products) if (p.inner, p.outer) == (width, vocabulary)), None)
    if head is None:
        raise LazyError(
            f"the script's model has no product from {width} channels to the {vocabulary} tokens of its embedding",
            hint=f"Serve a model that generates text. {_HINT}",
        )
    layer_products = [p for p in products if p.index < head.index]
    size, rest = divmod(len(layer_products), len(attentions))
    groups = [layer_products[i : i + size] for i in range(0, len(layer_products) - rest, max(1, size))]
    layers = {_layer_extents(group, one, width) for group, one in zip(groups, attentions, strict=False)}
    if rest or len(layers) != 1:
        raise LazyError(
            f"the {len(attentions)} layers of the script's model differ in their products",
            hint=f"Serve a model whose layers are equal. {_HINT}",
        )
    kv_width, hidden, is_gated = layers.pop()
    attention = attentions[0]
    return Decoder(
        layers=len(attentions),
        width=width,
        heads=attention.heads,
        kv_heads=kv_width // attention.head_size,
        hidden=hidden,
        vocabulary=vocabulary,
        head_size=attention.head_size,
        is_gated=is_gated,
        is_tied=head.weight == table,
    )


def _weights_of_buffers(program: Program, forward: list[tuple[int, Instr]]) -> dict[int, int]:
    """Return for each buffer that holds a weight, or a copy in another type or layout, the weight's buffer."""
    sources = {b.index: b.index for b in program.buffers if b.kind == "state" and len(b.type.shape) > 1}
    for _, instr in forward:
        read = [r for r in instr.reads if r in sources]
        if instr.kernel == "matmul" or len(instr.reads) != 1 or not read:
            continue
        for w in instr.writes:
            if w not in sources and _elements(program, w) == _elements(program, read[0]):
                sources[w] = sources[read[0]]
    return sources


def _elements(program: Program, buffer: int) -> int:
    return prod(program.buffers[buffer].type.shape)


def _embedding(program: Program, forward: list[tuple[int, Instr]], sources: dict[int, int]) -> tuple[int, int, int]:
    """Return (buffer, tokens, channels) of the largest table whose rows are looked up."""
    tables = {
        sources[instr.reads[0]]
        for _, instr in forward
        if instr.attrs.get("op") == "gather_rows" and instr.reads[0] in sources
    }
    if not tables:
        raise LazyError("the script's model looks up no embedding of tokens", hint=f"Serve a language model. {_HINT}")
    table = max(tables, key=lambda b: program.buffers[b].type.shape[0])
    tokens, channels = program.buffers[table].type.shape
    return table, tokens, channels


def _products(program: Program, forward: list[tuple[int, Instr]], sources: dict[int, int]) -> Iterator[_Product]:
    """Yield the products with a weight, in order."""
    for i, instr in forward:
        weights = [r for r in instr.reads if r in sources]
        if instr.kernel == "matmul" and weights:
            result = program.buffers[instr.writes[0]].type.shape
            # The channels of the result are its columns, or its rows if the weight is the left factor.
            outer = result[-1] if instr.reads[-1] in sources else result[-2]
            yield _Product(i, _elements(program, weights[0]) // outer, outer, sources[weights[0]])


def _attentions(program: Program, forward: list[tuple[int, Instr]], sources: dict[int, int]) -> list[_Attention]:
    """Return the attention of each layer: a softmax between two products without a weight.

    Raises LazyError if there is none.
    """
    found, scores, is_open = list[_Attention](), None, False
    batch = program.buffers[program.batch[0]].type.shape[0]
    for i, instr in forward:
        if instr.kernel == "softmax":
            is_open = scores is not None
        if instr.kernel != "matmul" or any(r in sources for r in instr.reads):
            continue
        if is_open and scores is not None:
            heads = prod(program.buffers[scores.writes[0]].type.shape[:-2]) // batch
            left = program.buffers[scores.reads[0]].type.shape
            found.append(_Attention(i, heads, left[-2 if scores.attrs.get("transpose_a") else -1]))
            is_open, scores = False, None
        else:
            scores = instr
    if not found:
        raise LazyError("the script's model has no attention", hint=f"Serve a decoder-only transformer. {_HINT}")
    return found


def _layer_extents(group: list[_Product], attention: _Attention, width: int) -> tuple[int, int, bool]:
    """Return (channels of keys, channels of the MLP, whether it is gated) of a layer with the products `group`."""
    query_width = attention.heads * attention.head_size
    # The projection back is the first such product after that with the values.
    back = next(
        (n for n, p in enumerate(group) if p.index > attention.values and (p.inner, p.outer) == (query_width, width)),
        None,
    )
    into, mlp = (group[:back], group[back + 1 :]) if back is not None else ([], [])
    hidden = mlp[-1].inner if mlp else 0
    up = sum(p.outer for p in mlp[:-1])
    kv_width = (sum(p.outer for p in into) - query_width) // 2
    if not mlp or up not in (hidden, 2 * hidden) or kv_width < attention.head_size:
        shapes = ", ".join(f"{p.inner} x {p.outer}" for p in group)
        raise LazyError(
            f"a layer of the script's model has the products {shapes}, which are not those of attention and an MLP",
            hint=_HINT,
        )
    return kv_width, hidden, up == 2 * hidden
