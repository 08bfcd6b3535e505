"""Bad calls of operations, drawn at random: `python -m tests.campaign calls N SEED`.

A call is data, so that PyTorch can be asked the same (`tests/golden/record_bad_calls.py`): the name of a function of
`torch` and what it is given. Most have one or two arguments that do not fit: another shape or type, an index or a size
far outside, a word where a number belongs, one too many or too few.
"""

import random
import re
import signal
import warnings
from typing import Any

# T a float tensor, I one of indices, B a mask, M a matrix, V a vector, L tensors in a list, D a dimension, N a number
# of elements, S a shape, F a number.
TABLE = """
    add T T | sub T T | mul T T | div T T | pow T F | maximum T T | minimum T T | remainder T T | floor_divide T T
    eq T T | lt T T | logical_and B B | bitwise_and I I | atan2 T T | fmod T F | lerp T T F | addcmul T T T | exp T
    log T | sqrt T | tanh T | sigmoid T | relu T | abs T | neg T | sign T | round T | clamp T F F | erf T | sum T D
    mean T D | prod T D | amax T D | amin T D | max T D | min T D | argmax T D | argmin T D | std T D | var T D
    all B D | any B D | logsumexp T D | softmax T D | log_softmax T D | cumsum T D | cumprod T D | norm T
    matmul M M | mm M M | bmm T T | dot V V | mv M V | outer V V | addmm M M M | baddbmm T T T | einsum E L
    cat L D | stack L D | split T N D | chunk T N D | unbind T D | narrow T D N N | select T D N
    index_select T D V | gather T D I | scatter T D I T | take_along_dim T I D | masked_fill T B F
    masked_select T B | where B T T | reshape T S | permute T S | transpose T D D | squeeze T D | unsqueeze T D
    flatten T D D | broadcast_to T S | movedim T D D | flip T S | roll T N D | tile T S | repeat_interleave T N D
    tril M N | triu M N | diag M | trace M | topk T N D | sort T D | argsort T D | kthvalue T N D | nonzero T
    bincount I | histc T N | zeros S | ones S | full S F | arange F F F | linspace F F N | eye N N | rand S
    randn S | randint N N S | empty S | zeros_like T | full_like T F | tensor F | as_tensor F | meshgrid L
    cdist M M | cross T T D | tensordot T T N | nn.functional.linear M M V | nn.functional.conv2d T T V N N
    nn.functional.conv1d T T V | nn.functional.embedding I M | nn.functional.cross_entropy M I
    nn.functional.nll_loss M I | nn.functional.mse_loss T T | nn.functional.dropout T F
    nn.functional.layer_norm T S | nn.functional.batch_norm T V V | nn.functional.max_pool2d T N N
    nn.functional.avg_pool2d T N N | nn.functional.pad T S F | nn.functional.gelu T | nn.functional.one_hot I N
    nn.functional.binary_cross_entropy T T | nn.functional.kl_div T T | nn.functional.smooth_l1_loss T T
    nn.functional.interpolate T N | nn.functional.normalize T F D | nn.functional.group_norm T N
    nn.functional.glu T D | nn.functional.unfold T N | nn.functional.adaptive_avg_pool2d T N
    nn.functional.scaled_dot_product_attention T T T
"""
CALLS = {words[0]: words[1:] for line in re.split(r"[|\n]", TABLE) if (words := line.split())}
DTYPES = ("float32", "float32", "float64", "int64", "int32", "bool", "float16", "bfloat16", "uint8")
EXTENTS = (0, 1, 2, 3, 4, 5)
NUMBERS = (-1, -2, -5, 0, 1, 7, 100, -(1 << 40), 1 << 40, (1 << 62) - 1, -(1 << 63), 1 << 70)
SECONDS = 10
"""What a call may take."""
Call = tuple[str, list[Any]]


def drawn(seed: int, case: int) -> Call:
    """One call: a function and what it is given, as data."""
    draw = random.Random(f"{seed} {case}")
    name = draw.choice(list(CALLS))
    args = [_fitting(draw, kind) for kind in CALLS[name]]
    for _ in range(draw.choice((1, 1, 1, 2))):
        turn, at = draw.random(), draw.randrange(len(args)) if args else 0
        if turn < 0.05 and args:
            args.pop()
        elif turn < 0.1:
            args.append(_anything(draw))
        elif args:
            args[at] = _anything(draw)
    return name, args


def _fitting(draw: random.Random, kind: str) -> Any:
    """What may fit; shapes are of few extents, so that two of them often agree."""
    ranks = {"T": draw.choice((1, 2, 3, 3, 4)), "M": 2, "V": 1}
    if kind in ranks:
        return {"shape": [3] * ranks[kind], "dtype": "float32"}
    if kind in "IB":
        return {"shape": [3] * draw.choice((1, 2, 3)), "dtype": {"I": "int64", "B": "bool"}[kind]}
    if kind == "E":
        return draw.choice(("ij,jk->ik", "ij,jk", "i,i", "abc", "ij->", "i..j,k"))
    if kind == "L":
        return [{"shape": [3, 3], "dtype": "float32"} for _ in range(draw.choice((1, 2, 3)))]
    return {"D": 0, "N": 2, "S": [3, 3], "F": 0.5}[kind]


def _anything(draw: random.Random) -> Any:
    kind = draw.randrange(10)
    if kind < 5:
        return {"shape": [draw.choice(EXTENTS) for _ in range(draw.randrange(5))], "dtype": draw.choice(DTYPES)}
    if kind < 8:
        return draw.choice(NUMBERS)
    if kind == 8:
        return [draw.choice(NUMBERS) for _ in range(draw.randrange(4))]
    return draw.choice((None, "word", 1e300, -0.5, True, [], [[1], 2], "float32"))


def real(torch: Any, arg: Any) -> Any:
    """An argument as the package takes it."""
    if isinstance(arg, dict):
        count = 1
        for extent in arg["shape"]:
            count *= extent
        return torch.arange(count).reshape(arg["shape"]).to(getattr(torch, arg["dtype"]))
    return [real(torch, a) for a in arg] if isinstance(arg, list) else arg


def asked(torch: Any, call: Call) -> Exception | None:
    """What a call raises; its values are looked at, since they are computed late."""
    name, args = call
    function: Any = torch
    for part in name.split("."):
        function = getattr(function, part)
    signal.signal(signal.SIGALRM, _is_late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(action="ignore"):
            result = function(*[real(torch, a) for a in args])
            for t in result if isinstance(result, tuple | list) else [result]:
                if isinstance(t, torch.Tensor) and t.dtype is not torch.bfloat16:
                    t.detach().reshape(-1)[:1].tolist()
    except Exception as e:
        return e
    finally:
        signal.alarm(0)
    return None


def _is_late(*_: object) -> None:
    raise TimeoutError(f"a call took more than {SECONDS} s")


def shown(call: Call) -> str:
    """A call as it is written, with the types of tensors."""
    texts = (f"{a['dtype']}{a['shape']}" if isinstance(a, dict) else repr(a) for a in call[1])
    return f"{call[0]}({', '.join(texts)})"
