"""Draws statements that sort, pick, move and combine elements."""

from tests.campaign.programs.state import Program, Shape, Value
from tests.campaign.programs.statements import Draw, joined


def _axis(p: Program) -> tuple[Value, int] | None:
    """Return a tensor that has dimensions and elements, and one of its dimensions."""
    v = p.value(lambda v: not v.is_array and v.shape != () and v.size > 0)
    return None if v is None else (v, p.random.randrange(len(v.shape)))


def _with_extent(shape: Shape, d: int, extent: int) -> Shape:
    return (*shape[:d], extent, *shape[d + 1 :])


def _places(p: Program, shape: Shape, extent: int) -> str:
    """Return a tensor of places below an extent as text."""
    if not shape:
        return str(p.random.randrange(extent))
    return "[" + ", ".join(_places(p, shape[1:], extent) for _ in range(shape[0])) + "]"


def sorted_elements(p: Program) -> None:
    """Elements in their order, the largest ones, or the places of both."""
    found = _axis(p)
    if found is None:
        return
    v, d = found
    extent = v.shape[d]
    k = p.random.randint(1, extent)
    options = [
        (f"{v.name}.sort({d})[0]", extent, v.kind),
        (f"torch.sort({v.name}, dim={d}, descending=True)[0]", extent, v.kind),
        (f"{v.name}.topk({k}, {d})[0]", k, v.kind),
        (f"{v.name}.cummax({d})[0]", extent, v.kind),
    ]
    if v.storage.is_exact:
        options += [(f"torch.argsort({v.name}, dim={d}, stable=True)", extent, "int")]
    text, length, kind = p.pick(options)
    p.new(joined(p, [v], is_exact=True, shape=_with_extent(v.shape, d, length), kind=kind), text)


def moved_elements(p: Program) -> None:
    """Elements in another order, repeated, or with zeros around them."""
    found = _axis(p)
    if found is None:
        return
    v, d = found
    n, extent = v.name, v.shape[d]
    last = _with_extent(v.shape, len(v.shape) - 1, v.shape[-1] + 1)
    options = [
        (f"{n}.flip({d})", v.shape),
        (f"{n}.roll({p.random.randint(-2, 2)}, {d})", v.shape),
        (f"torch.cat([{n}, {n}], {d})", _with_extent(v.shape, d, 2 * extent)),
        (f"{n}.repeat({', '.join(['2'] * len(v.shape))})", tuple(2 * e for e in v.shape)),
        (f"{n}.repeat_interleave(2, {d})", _with_extent(v.shape, d, 2 * extent)),
        (f"F.pad({n}, (1, 0))", last),
        (f"F.pad({n}, (0, 1), value={p.scalar('int')})", last),
        (f"{n}.movedim({d}, 0)", (extent, *v.shape[:d], *v.shape[d + 1 :])),
    ]
    if len(v.shape) > 1:
        options += [(f"{n}.tril()", v.shape), (f"{n}.triu(1)", v.shape)]
    text, shape = p.pick(options)
    # A tensor may be moved to where it is.
    out = joined(p, [v], is_exact=True, shape=shape)
    out.storage = v.storage if ".movedim" in text else out.storage
    p.new(out, text)


def picked_elements(p: Program) -> None:
    """Elements at places of a list, and values that are written or added there."""
    found = _axis(p)
    if found is None:
        return
    v, d = found
    n, extent = v.name, v.shape[d]
    places = f"torch.tensor({_places(p, v.shape, extent)})"
    row = f"torch.tensor([{p.random.randrange(extent)}])"
    part = f"{n}.narrow({d}, 0, 1)"
    options = [
        (f"{n}.gather({d}, {places})", True, v.shape),
        (f"torch.take_along_dim({n}, {places}, {d})", True, v.shape),
        (f"{n}.scatter({d}, {places}, {p.scalar('int')})", True, v.shape),
        (f"{n}.scatter_add({d}, {places}, {n})", False, v.shape),
        (f"{n}.index_add({d}, {row}, {part})", True, v.shape),
        (f"{n}.index_copy({d}, {row}, {part})", True, v.shape),
        (f"{n}.index_fill({d}, {row}, {p.scalar('int')})", True, v.shape),
    ]
    if v.storage.is_exact:
        options.append((f"{n}.masked_select({n} > 0).sum()", False, ()))
        options.append((f"torch.masked_fill({n}, {n} > 0, {p.scalar('int')})", True, v.shape))
    text, is_exact, shape = p.pick(options)
    p.new(joined(p, [v], is_exact=is_exact, shape=shape), text)


def of_integers(p: Program) -> None:
    """Operations on the bits of integers, and classes as rows of zeros and a one."""
    v = p.value(lambda v: not v.is_array and v.kind != "float")
    if v is None:
        return
    w = p.value(lambda w: not w.is_array and w.kind != "float" and w.shape == v.shape)
    assert w is not None
    options = [f"{v.name} {p.pick('&|^')} {w.name}", f"~{v.name}", f"torch.bitwise_and({v.name}, 1)"]
    if p.chance(0.3):
        out = joined(p, [v], is_exact=True, shape=(*v.shape, 3), kind="int")
        p.new(out, f"F.one_hot({v.name}.long() % 3, 3)")
        return
    text = p.pick(options)
    p.new(joined(p, [v, *([w] if w.name in text else [])], is_exact=True), text)


def divided(p: Program) -> None:
    """Quotients that are rounded, and numbers in place of NaN and infinity."""
    v = p.tensor()
    if v is None or not v.storage.is_exact:
        return
    number = p.scalar()
    mode = p.pick(("floor", "trunc"))
    if p.chance(0.5):
        kind = "float" if "." in number else ""
        p.new(joined(p, [v], is_exact=True, kind=kind), f"torch.div({v.name}, {number}, rounding_mode='{mode}')")
    else:
        p.new(joined(p, [v], is_exact=True), f"torch.nan_to_num({v.name}, nan=0.5, posinf=3, neginf=-3)")


def combined(p: Program) -> None:
    """Products, distances and directions, and larger images."""
    v = p.value(lambda v: not v.is_array and v.kind == "float" and len(v.shape) > 0 and v.size > 0)
    if v is None:
        return
    n, shape = v.name, v.shape
    d = p.random.randrange(len(shape))
    rest = (*shape[:d], *shape[d + 1 :])
    options: list[tuple[str, Shape]] = [
        (f"{n}.cumprod({d})", shape),
        (f"F.normalize({n}, dim={d})", shape),
        (f"F.cosine_similarity({n}, {n} * {n}, dim={d})", rest),
    ]
    if len(shape) == 1:
        options.append((f"torch.outer({n}, {n})", (*shape, *shape)))
    if len(shape) == 2:
        square = (shape[0], shape[0])
        options.append((f"torch.addmm({n}[0, 0], {n}, {n}.T, beta=0.5, alpha=2)", square))
        options.append((f"torch.cdist({n}, {n} + 1)", square))
    if len(shape) == 3:
        larger = (*shape[:2], 2 * shape[2])
        options += [(f"F.interpolate({n}, scale_factor=2.0, mode='{m}')", larger) for m in ("nearest", "linear")]
    text, out = p.pick(options)
    p.new(joined(p, [v], is_exact=False, shape=out), text)


STATEMENTS: tuple[tuple[int, Draw], ...] = (
    (3, sorted_elements),
    (4, moved_elements),
    (4, picked_elements),
    (2, of_integers),
    (2, divided),
    (3, combined),
)
"""The statements, and how often each is drawn."""
