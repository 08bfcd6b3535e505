"""Draws single statements: new tensors, views, arithmetic, writes in place, gradients, copies and files."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.campaign.programs.state import FLOATS, INTEGERS, Program, Shape, Storage, Value

Draw = Callable[[Program], None]

EXACT_BINARY = {"+": "+", "-": "-", "*": "*", "/": "/"}
EXACT_UNARY = ("neg", "abs", "relu", "floor", "ceil", "round", "trunc", "sign", "square", "sqrt", "positive", "frac")
UNARY = ("exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "rsqrt", "log1p", "expm1", "atan", "reciprocal")
ACTIVATIONS = (
    "gelu", "softplus", "silu", "elu", "leaky_relu", "hardtanh", "logsigmoid", "mish", "hardswish", "selu",
    "softsign", "celu", "tanhshrink", "hardsigmoid", "relu6", "softshrink",
)  # fmt: skip
TWO = ("maximum", "minimum", "fmod", "remainder", "atan2", "hypot", "pow", "logaddexp", "floor_divide", "copysign")
EXACT_TWO = frozenset({"maximum", "minimum", "copysign"})
REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "norm", "median", "cumsum", "softmax")


def new_tensor(p: Program) -> None:
    """A tensor of numbers that are written out."""
    kind = p.pick(("float",) * 6 + ("int", "int", "bool"))
    names = {"float": ("float32",) * 4 + FLOATS, "int": ("int64", *INTEGERS), "bool": ("bool",)}
    dtype, shape = p.pick(names[kind]), p.shape()
    v = Value(p.name(), shape, kind, Storage(coarsest=dtype if kind == "float" else "float64"))
    if 0 in shape:
        text = f"torch.empty({shape}, dtype=torch.{dtype})"
    else:
        text = f"torch.tensor({p.literal(shape, dtype, kind)}, dtype=torch.{dtype})"
    v.is_leaf = v.tracks = kind == "float" and p.chance(0.4)
    p.new(v, text + (".requires_grad_()" if v.is_leaf else ""))


def made_tensor(p: Program) -> None:
    """A tensor of a factory."""
    shape, storage = p.shape(), Storage(coarsest="float32")
    kind = "float"
    n = p.random.randint(0, 6)
    option = p.random.randrange(9)
    if option == 0:
        text = f"torch.zeros({shape})"
    elif option == 1:
        text, kind = f"torch.full({shape}, {p.random.randint(-3, 3)})", "int"
    elif option == 2:
        text, shape, kind = f"torch.arange({n})", (n,), "int"
    elif option == 3:
        text, shape = f"torch.arange({n}, dtype=torch.{(d := p.pick(FLOATS))})", (n,)
        storage.coarsest = d
    elif option == 4:
        text, shape = f"torch.eye({n})", (n, n)
    elif option == 5:
        text = f"torch.randn({shape})"
        storage.is_exact, p.uses_generator = False, True
    elif option == 6:
        text = f"torch.rand({shape})"
        p.uses_generator = True
    elif option == 7:
        text, kind = f"torch.randint(0, 5, {shape})", "int"
        p.uses_generator = True
    else:
        text, shape = f"torch.linspace(-1, 1, {n})", (n,)
        storage.is_exact = False
    p.new(Value(p.name(), shape, kind, storage), text)


def new_array(p: Program) -> None:
    """An array of NumPy, and most often a tensor that shares its memory."""
    kind = p.pick(("float",) * 4 + ("int", "bool"))
    names = {
        "float": ("float32", "float32", "float64", "float16"),
        "int": ("int64", "int32", "uint8"),
        "bool": ("bool",),
    }
    dtype, shape = p.pick(names[kind]), p.shape()
    storage = Storage(coarsest=dtype if kind == "float" else "float64")
    text = f"np.array({p.literal(shape, dtype, kind)}, dtype=np.{dtype}).reshape({shape})"
    a = p.new(Value(p.name("n"), shape, kind, storage, is_array=True), text)
    if p.chance(0.8):
        _shared(p, a)


def shared_tensor(p: Program) -> None:
    """A tensor over an array that is there, or an array over a tensor."""
    v = p.value(lambda v: v.kind != "none")
    if v is None:
        new_array(p)
    elif v.is_array:
        _shared(p, v)
    else:
        text = p.pick(
            ("{}.detach().numpy()", "np.asarray({}.detach())", "{}.numpy()" if not v.tracks else "{}.data.numpy()")
        )
        p.new(replace(v, name=p.name("n"), is_array=True, tracks=False, is_leaf=False), text.format(v.name))


def _shared(p: Program, a: Value) -> None:
    is_copy = p.chance(0.15)
    maker = "torch.tensor" if is_copy else p.pick(("torch.from_numpy", "torch.from_numpy", "torch.as_tensor"))
    p.new(replace(a, name=p.name(), is_array=False, storage=_copied(a) if is_copy else a.storage), f"{maker}({a.name})")


def _copied(*values: Value, is_exact: bool = True) -> Storage:
    storage = Storage()
    storage.mix(*(v.storage for v in values), is_exact=is_exact)
    return storage


def index_of(p: Program, shape: Shape) -> tuple[str, Shape]:
    """Return an index that gives a view, as text, and the shape of the view."""
    if not shape:
        return "...", ()
    parts: list[str] = []
    for extent in shape[: p.random.randint(1, len(shape))]:
        start = p.random.randint(0, max(0, extent - 1))
        choices = [":", f"{start}:", f":{max(0, extent - 1)}", "::2"]
        if p.chance(0.08):
            parts.append("None")
        # An index behind the end is an error in both.
        parts.append(p.pick([*choices, str(start), "-1"] if extent else choices))
    text = ", ".join(parts)
    return text, np.empty(shape)[eval(f"np.index_exp[{text}]")].shape


def view_of(p: Program, v: Value) -> tuple[str, Shape]:
    """Return a view of a tensor as text, and its shape."""
    n, shape = v.name, v.shape
    options: list[tuple[str, Shape]] = []
    text, part = index_of(p, shape)
    options += [(f"{n}[{text}]", part)] * 4
    options.append((f"{n}.unsqueeze(-1)", (*shape, 1)))
    options.append((f"{n}.view(-1)", (v.size,)))
    options.append((f"{n}.reshape(-1)", (v.size,)))
    if shape:
        options.append((f"{n}.expand({p.random.randint(1, 3)}, {', '.join('-1' for _ in shape)})", ()))
        k = options[-1]
        options[-1] = (k[0], (int(k[0].split("(")[1].split(",")[0]), *shape))
        options.append((f"{n}.flatten()", (v.size,)))
        d = p.random.randrange(len(shape))
        if shape[d] > 1:
            options.append((f"{n}.narrow({d}, 1, {shape[d] - 1})", (*shape[:d], shape[d] - 1, *shape[d + 1 :])))
            options.append((f"{n}.unfold({d}, 2, 1)", (*shape[:d], shape[d] - 1, *shape[d + 1 :], 2)))
        if shape[d]:
            i = p.random.randrange(shape[d])
            rest = (*shape[:d], *shape[d + 1 :])
            options += [(f"{n}.select({d}, {i})", rest), (f"{n}.unbind({d})[{i}]", rest)]
            half = (shape[d] + 1) // 2
            options.append((f"{n}.chunk(2, {d})[0]", (*shape[:d], half, *shape[d + 1 :])))
    if len(shape) > 1:
        turned = (*shape[:-2], shape[-1], shape[-2])
        options += [(f"{n}.transpose(-1, -2)", turned), (f"{n}.mT", turned)]
        options.append((f"{n}.permute({', '.join(map(str, reversed(range(len(shape)))))})", shape[::-1]))
        options.append((f"{n}.diagonal()", (*shape[2:], min(shape[:2]))))
    if v.size > 3:
        options.append((f"{n}.as_strided((2, 2), (1, 2))", (2, 2)))
    return p.pick(options)


def view(p: Program) -> None:
    """A view that has a name."""
    v = p.tensor()
    if v is None:
        return
    text, shape = view_of(p, v)
    p.new(replace(v, name=p.name(), shape=shape, is_leaf=False), text)


def alias(p: Program) -> None:
    """The same memory without a gradient history, or another name of a tensor."""
    v = p.tensor()
    if v is None:
        return
    form = p.pick(("{}.data", "{}.detach()", "{}.data", "{}.view_as({})", "{}"))
    is_free = "data" in form or "detach" in form
    tracks = v.tracks and not is_free
    p.new(replace(v, name=p.name(), tracks=tracks, is_leaf=v.is_leaf and form == "{}"), form.format(v.name, v.name))


def operand(p: Program, v: Value) -> tuple[str, list[Value], bool]:
    """Return an operand that broadcasts with a tensor, as text, with its variables; and whether it is a number."""
    if p.chance(0.35):
        return p.scalar(v.kind if v.kind == "int" and p.chance(0.6) else "float"), [], True

    def fits(w: Value) -> bool:
        try:
            return not w.is_array and np.broadcast_shapes(v.shape, w.shape) is not None
        except ValueError:
            return False

    w = p.value(fits)
    return (p.scalar(), [], True) if w is None else (w.name, [w], False)


def joined(p: Program, values: list[Value], is_exact: bool, shape: Shape | None = None, kind: str = "") -> Value:
    """Return the variable for a result of an operation."""
    kinds = [v.kind for v in values]
    kind = kind or ("float" if "float" in kinds else "int" if "int" in kinds else "bool")
    shape = np.broadcast_shapes(*(v.shape for v in values)) if shape is None else shape
    tracks = any(v.tracks for v in values) and kind == "float"
    return Value(p.name(), shape, kind, _copied(*values, is_exact=is_exact), tracks=tracks)


def binary(p: Program) -> None:
    """An operation of a tensor and a number or another tensor."""
    v = p.tensor()
    if v is None:
        return
    text, others, is_number = operand(p, v)
    kind = "float" if is_number and "." in text else ""
    form = p.random.random()
    if form < 0.55:
        sign = p.pick(tuple(EXACT_BINARY))
        left, right = (text, v.name) if is_number and p.chance(0.3) else (v.name, text)
        out = joined(p, [v, *others], is_exact=True, kind="float" if sign == "/" else kind)
        p.new(out, f"{left} {sign} {right}")
    elif form < 0.65:
        name, alpha = p.pick(("add", "sub")), p.scalar("int" if v.kind == "int" else "float")
        # PyTorch fuses the product and the sum where its vectors reach.
        p.new(joined(p, [v, *others], is_exact=False, kind=kind), f"torch.{name}({v.name}, {text}, alpha={alpha})")
    elif form < 0.8 and v.storage.is_exact and all(o.storage.is_exact for o in others):
        sign = p.pick(("<", "<=", ">", ">=", "==", "!="))
        p.new(joined(p, [v, *others], is_exact=True, kind="bool"), f"{v.name} {sign} {text}")
    else:
        name = p.pick(TWO)
        if not is_number:
            p.new(joined(p, [v, *others], is_exact=name in EXACT_TWO, kind=kind), f"torch.{name}({v.name}, {text})")
        else:
            sign = p.pick(("**", "//", "%"))
            p.new(joined(p, [v], is_exact=False, kind=kind), f"{v.name} {sign} {text}")


def unary(p: Program) -> None:
    """A function of each element."""
    v = p.tensor()
    if v is None:
        return
    form = p.random.random()
    if form < 0.35:
        name = p.pick(EXACT_UNARY)
        kind = "float" if name in ("sqrt",) else ""
        # PyTorch computes roots of float32 by a library that is off by up to one unit in the last place.
        p.new(joined(p, [v], is_exact=name != "sqrt", kind=kind), f"torch.{name}({v.name})")
    elif form < 0.6:
        p.new(joined(p, [v], is_exact=False, kind="float"), f"torch.{p.pick(UNARY)}({v.name})")
    elif form < 0.8:
        p.new(joined(p, [v], is_exact=False), f"F.{p.pick(ACTIVATIONS)}({v.name})")
    else:
        low, high = p.pick((("-1", "1"), ("0", "None"), ("None", "0.5"), ("-0.5", "0.5")))
        p.new(joined(p, [v], is_exact=True), f"{v.name}.clamp({low}, {high})")


def cast(p: Program) -> None:
    """A tensor in another type."""
    v = p.tensor()
    if v is None:
        return
    target = p.pick(FLOATS if not v.storage.is_exact or p.chance(0.7) else (*INTEGERS, "bool"))
    kind = "float" if target in FLOATS else "bool" if target == "bool" else "int"
    out = joined(p, [v], is_exact=True, kind=kind)
    if kind == "float":
        out.storage.mix(Storage(coarsest=target))
    # A cast to the type that a tensor has is the tensor.
    out.storage = _linked(v, out)
    p.new(out, f"{v.name}.to(torch.{target})")


def _linked(v: Value, out: Value) -> Storage:
    """Return one storage for two variables that may be one."""
    v.storage.mix(out.storage)
    return v.storage


def reduction(p: Program) -> None:
    """A sum, a mean, a largest element and the like, of all elements or along a dimension."""
    v = p.tensor("float")
    if v is None:
        return
    name = p.pick(REDUCTIONS)
    d = p.random.randrange(len(v.shape)) if v.shape else 0
    whole = not v.shape or (name not in ("cumsum", "softmax", "logsumexp") and p.chance(0.4))
    if name in ("cumsum", "softmax"):
        p.new(joined(p, [v], is_exact=False), f"{v.name}.{name}({d})")
        return
    kept = p.chance(0.3)
    shape = () if whole else (*v.shape[:d], *((1,) if kept else ()), *v.shape[d + 1 :])
    arguments = "" if whole else f"dim={d}, keepdim={kept}"
    if name == "median":
        arguments, shape = "", ()
    if name == "logsumexp" and whole:
        arguments = "dim=0"
    p.new(joined(p, [v], is_exact=name in ("amax", "amin"), shape=shape), f"{v.name}.{name}({arguments})")


def product(p: Program) -> None:
    """A product of two matrices, or a sum of products that einsum writes."""
    a = p.tensor("float", 2)
    if a is None:
        return
    b = p.value(lambda v: not v.is_array and v.kind == "float" and len(v.shape) == 2 and v.shape[0] == a.shape[1])
    if b is None:
        shape = (a.shape[0], a.shape[0])
        p.new(joined(p, [a], is_exact=False, shape=shape), f"{a.name} @ {a.name}.T")
        return
    text = p.pick(("{} @ {}", "torch.mm({}, {})", "torch.einsum('ij,jk->ik', {}, {})"))
    shape = (a.shape[0], b.shape[1])
    p.new(joined(p, [a, b], is_exact=False, shape=shape), text.format(a.name, b.name))


def together(p: Program) -> None:
    """Tensors put together, or chosen by a condition."""
    v = p.tensor()
    if v is None or not v.shape:
        return
    w = p.value(lambda w: not w.is_array and w.shape == v.shape)
    assert w is not None
    form = p.random.randrange(4)
    if form == 0:
        shape = (v.shape[0] + w.shape[0], *v.shape[1:])
        p.new(joined(p, [v, w], is_exact=True, shape=shape), f"torch.cat([{v.name}, {w.name}])")
    elif form == 1:
        p.new(joined(p, [v, w], is_exact=True, shape=(2, *v.shape)), f"torch.stack([{v.name}, {w.name}])")
    elif form == 2 and v.storage.is_exact:
        p.new(joined(p, [v, w], is_exact=True), f"torch.where({v.name} > 0, {v.name}, {w.name})")
    else:
        d = p.random.randrange(len(v.shape))
        if not v.shape[d]:
            return
        places = [p.random.randrange(v.shape[d]) for _ in range(2)]
        shape = (*v.shape[:d], 2, *v.shape[d + 1 :])
        text = f"{v.name}.index_select({d}, torch.tensor({places}))"
        p.new(joined(p, [v], is_exact=True, shape=shape), text)


WRITES: tuple[tuple[str, bool], ...] = (
    ("{t} += {o}", True), ("{t} *= {o}", True), ("{t} -= {o}", True), ("{t} /= {o}", True),
    ("{t}.add_({o})", True), ("{t}.mul_({o})", True), ("{t}.copy_({w})", True), ("{t}.fill_({s})", True),
    ("{t}.zero_()", True), ("{t}.clamp_(-1, 1)", True), ("{t}.neg_()", True), ("{t}.relu_()", True),
    ("{t}.add_({w}, alpha={s})", False), ("{t}.addcmul_({w}, {w}, value={s})", False), ("{t}.exp_()", False),
    ("{t}.sigmoid_()", False), ("{t}.masked_fill_({t} > 0, {s})", True), ("{t}.lerp_({w}, 0.25)", False),
    ("torch.add({t}, {o}, out={t})", True), ("{t}.addcdiv_({w}, {w}, value={s})", False), ("{t}.sub_({o})", True),
    ("torch.mul({t}, {o}, out={t})", True), ("{t}.pow_(2)", True), ("{t}.abs_()", True), ("{t}.div_({o})", True),
)  # fmt: skip
"""Writes to {t}, with an operand {o}, a tensor {w} or a number {s}; and whether each bit has one right value."""


def write_text(p: Program, v: Value, name: str) -> str:
    """Return a write to a variable or view with the given text, and note what is written."""
    # A statement cannot assign to a call.
    form, is_exact = p.pick([w for w in WRITES if not (name.endswith(")") and "= {" in w[0])])
    text, others, is_number = operand(p, v)
    if not is_number and p.chance(0.2):
        text, others, is_number = p.scalar(), [], True
    w = others[0] if others else v
    if "> 0" in form and not v.storage.is_exact:
        form = "{t}.zero_()"
    v.storage.mix(*(o.storage for o in others), is_exact=is_exact)
    v.tracks |= any(o.tracks for o in others)
    return form.format(t=name, o=text, w=w.name, s=p.scalar("int" if v.kind == "int" else "float"))


def write(p: Program) -> None:
    """A write in place: to a tensor, to a view of it, to `.data`, or where no gradient is recorded."""
    v = p.tensor()
    if v is None:
        return
    name = v.name
    target = replace(v)
    if p.chance(0.4):
        name, shape = view_of(p, v)
        target = replace(v, shape=shape)
    is_free = v.is_leaf and p.chance(0.8)
    if is_free and p.chance(0.4):
        name = name.replace(v.name, f"{v.name}.data", 1)
        is_free = False
    text = write_text(p, target, name)
    if not (is_free or ".data" in name):
        v.tracks |= target.tracks
    p.add(f"with torch.no_grad():\n    {text}" if is_free else text)


def write_at(p: Program) -> None:
    """An assignment to an index: a slice, places of a list, or a mask."""
    v = p.tensor()
    if v is None or not v.shape or not v.shape[0]:
        return
    form = p.random.randrange(4)
    index, shape = index_of(p, v.shape)
    if form == 1:
        places = [p.random.randrange(v.shape[0]) for _ in range(2)]
        index, shape = f"[{places[0]}, {places[1]}]", (2, *v.shape[1:])
        if places[0] == places[1]:
            index, shape = f"[{places[0]}]", (1, *v.shape[1:])
    elif form == 2 and v.storage.is_exact:
        index, shape = f"{v.name} > 0", ()
    value, others, _ = operand(p, replace(v, shape=shape))
    if form == 2 and others:
        value, others = p.scalar(), []
    v.storage.mix(*(o.storage for o in others))
    sign = p.pick(("=", "=", "=", "+=", "*="))
    text = f"{v.name}[{index}] {sign} {value}"
    if v.is_leaf and p.chance(0.8):
        p.add(f"with torch.no_grad():\n    {text}")
    else:
        v.tracks |= any(o.tracks for o in others)
        p.add(text)


def write_array(p: Program) -> None:
    """A write to an array of NumPy."""
    a = p.value(lambda v: v.is_array)
    if a is None:
        return
    number = p.scalar("int" if a.kind != "float" else "float")
    forms = ["{n}[...] = {s}", "{n} += {s}", "{n} *= {s}", "np.negative({n}, out={n})", "{n}.fill({s})"]
    if a.shape and a.shape[0]:
        forms += ["{n}[0] = {s}", "{n}[-1:] = {s}", "{n}[:] = {n}[::-1].copy()"]
    p.add(p.pick(forms).format(n=a.name, s=number))


def repeat(p: Program) -> None:
    """A loop that reuses a buffer."""
    a = p.value(lambda v: v.kind == "float" and not v.tracks and v.shape != ())
    if a is None:
        return
    out = Value(p.name(), (), "float", _copied(a, is_exact=False))
    read = (
        f"torch.from_numpy({a.name})"
        if a.is_array
        else p.pick(("{}", "{}[0:1]", "{}.detach()", "{}.clone()")).format(a.name)
    )
    change = p.pick(("{n}[:] = k", "{n}[0] = k" if a.shape[0] else "{n}[:] = k", "{n} += k", "{n} *= 0.5"))
    lines = [
        change.format(n=a.name),
        p.pick((f"{out.name} = {out.name} + {read}.sum()", f"kept_{out.name}.append({read} * 2)")),
    ]
    if p.chance(0.5):
        lines.reverse()
    body = "\n    ".join(lines)
    p.add(f"{out.name}, kept_{out.name} = torch.zeros(()), []\nfor k in range(3):\n    {body}")
    p.values.append(out)


def show(p: Program) -> None:
    """A value that the program reads before its end."""
    v = p.value(lambda v: True)
    if v is None:
        return
    n, label = v.name, f"'{v.name}'"
    forms = [f"show({label}, {n})"] * 3
    if not v.is_array:
        forms += [f"show({label}, {n}.tolist())", f"show({label}, {n}.stride(), {n}.storage_offset())"]
        forms += [f"show({label}, {n}.is_contiguous(), {n}.is_leaf, {n}.requires_grad, {n}.dtype)"]
        forms += [
            f"show({label}, {n}.grad)",
            f"show('sum of {n}', {n}.sum().item())",
            f"show({label}, len({n}), {n}.numel())",
        ]
        forms += [f"show({label}, {n}._version)", f"show({label}, {n}.grad_fn is None, {n}.shape, {n}.dim())"]
    p.add(p.pick(forms))


def backward(p: Program) -> None:
    """A backward pass."""
    v = p.tensor("float")
    v = p.value(lambda v: v.tracks and not v.is_array and v.kind == "float") or v
    if v is None:
        return
    loss = p.pick(("{}.sum()", "({} * {}).sum()", "{}.mean()", "{}.pow(2).sum()", "({} * 0.5).sum()")).format(
        v.name, v.name
    )
    leaf = p.value(lambda w: w.is_leaf)
    form = p.random.random()
    if form < 0.6 or leaf is None:
        p.add(f"{loss}.backward({p.pick(('', '', 'retain_graph=True'))})")
    elif form < 0.8:
        out = Value(p.name("g"), leaf.shape, "float", _copied(v, leaf, is_exact=False))
        p.new(out, f"torch.autograd.grad({loss}, {leaf.name}, allow_unused=True, retain_graph=True)[0]")
    else:
        out = Value(p.name("g"), leaf.shape, "float", _copied(v, leaf, is_exact=False), tracks=True)
        p.new(out, f"torch.autograd.grad({loss}, {leaf.name}, create_graph=True)[0]")


def gradient_buffer(p: Program) -> None:
    """A gradient that the program replaces or changes."""
    v = p.value(lambda v: v.is_leaf and not v.is_array)
    if v is None:
        return
    n = v.name
    w = p.value(lambda w: not w.is_array and w.shape == v.shape and not w.tracks and w.kind == "float")
    forms = [
        f"{n}.grad = None",
        f"{n}.grad.zero_()",
        f"{n}.grad.mul_(0.5)",
        f"{n}.grad[...] = 2",
        f"{n}.grad.detach_()",
    ]
    if w is not None:
        w.storage.mix(v.storage, is_exact=False)
        forms += [f"{n}.grad = {w.name}", f"{n}.grad = {w.name}.clone()"]
    p.add(p.pick(forms))


def hook(p: Program) -> None:
    """A hook of a gradient."""
    v = p.value(lambda v: v.tracks and not v.is_array)
    if v is None:
        return
    n = v.name
    forms = [
        f"{n}.register_hook(lambda g: g * 2)",
        f"{n}.register_hook(lambda g: show('hook', g))",
        f"{n}.retain_grad()",
    ]
    if v.is_leaf:
        forms.append(f"{n}.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(2))")
    p.add(p.pick(forms))


FUNCTION = """class {c}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        {forward}
        ctx.save_for_backward({saved})
        {returned}
    @staticmethod
    def backward(ctx, g):
        {unpacked}
        {backward}
{out} = {c}.apply({x}, {y})"""


def custom_function(p: Program) -> None:
    """A function with a gradient of its own."""
    v = p.tensor("float")
    if v is None:
        return
    w = p.value(lambda w: not w.is_array and w.shape == v.shape and w.kind == "float")
    assert w is not None
    out = joined(p, [v, w], is_exact=False)
    forward, saved, returned, unpacked, back = p.pick(
        (
            ("out = x * y", "x, y", "return out", "x, y = ctx.saved_tensors", "return g * y, g * x"),
            ("out = x.exp() * y", "out, y", "return out", "out, y = ctx.saved_tensors", "return g * out, None"),
            (
                "ctx.k = 3",
                "x, y",
                "return x * y * 3",
                "x, y = ctx.saved_tensors",
                "return g * y * ctx.k, g * x * ctx.k",
            ),
            ("x.mul_(2); ctx.mark_dirty(x)", "y", "return x", "y, = ctx.saved_tensors", "return g * 2, g * y"),
            (
                "out = x.clone(); out.data[...] = 1",
                "x",
                "return out",
                "x, = ctx.saved_tensors",
                "return g, g.sum() * x",
            ),
            ("out = x + y", "x, y", "return out", "a, b = ctx.saved_tensors; a.data.add_(1)", "return g * a, g * b"),
            ("ctx.set_materialize_grads(False)", "x, y", "return x - y", "x, y = ctx.saved_tensors", "return g, -g"),
        )
    )
    fields = {"c": f"F{out.name}", "forward": forward, "saved": saved, "returned": returned}
    fields |= {"unpacked": unpacked, "backward": back, "out": out.name, "x": v.name, "y": w.name}
    p.add(FUNCTION.format(**fields))
    p.values.append(out)


def copies(p: Program) -> None:
    """Copies of tensors that may share memory, by deepcopy, pickle or a file."""
    v, w = p.tensor(), p.tensor()
    if v is None or w is None:
        return
    names = p.name(), p.name()
    second = w.name
    shape, storage = w.shape, w.storage
    if p.chance(0.5) and not (v.tracks and not v.is_leaf):
        second, shape = view_of(p, v)
        storage = v.storage
    a, b = v.name, second
    text = p.pick(
        (
            f"copy.deepcopy([{a}, {b}])",
            f"copy.deepcopy([{a}.detach(), {b}.detach()])",
            f"loaded([{a}.detach(), {b}.detach()])",
            f"loaded([{a}, {b}])",
            f"pickle.loads(pickle.dumps([{a}.detach(), {b}.detach()]))",
            f"[{a}.clone(), {b}.clone()]",
            f"[copy.copy({a}), copy.copy({b})]",
        )
    )
    p.add(f"{names[0]}, {names[1]} = {text}")
    joint = v.storage if "copy.copy" in text else _copied(v, replace(w, storage=storage))
    other = storage if "copy.copy" in text else joint
    tracks = "detach" not in text
    p.values.append(replace(v, name=names[0], storage=joint, tracks=v.tracks and tracks, is_leaf=v.is_leaf and tracks))
    p.values.append(replace(w, name=names[1], shape=shape, storage=other, tracks=w.tracks and tracks, is_leaf=False))


def region(p: Program) -> None:
    """A statement that records no gradient."""
    v = p.tensor()
    if v is None:
        return
    out = Value(p.name(), v.shape, v.kind, _copied(v))
    mode = p.pick(("torch.no_grad()", "torch.no_grad()", "torch.inference_mode()", "torch.set_grad_enabled(False)"))
    p.add(f"with {mode}:\n    {out.name} = {v.name} {p.pick('+-*')} {p.scalar()}")
    if v.kind == "bool":
        out.kind = "int"
    p.values.append(out)


STATEMENTS: tuple[tuple[int, Draw], ...] = (
    (10, new_tensor), (5, made_tensor), (6, new_array), (4, shared_tensor), (12, view), (4, alias), (14, binary),
    (8, unary), (4, cast), (7, reduction), (3, product), (4, together), (14, write), (8, write_at), (6, write_array),
    (3, repeat), (5, show), (6, backward), (3, gradient_buffer), (2, hook), (3, custom_function), (4, copies),
    (2, region),
)  # fmt: skip
"""The statements, and how often each is drawn."""
