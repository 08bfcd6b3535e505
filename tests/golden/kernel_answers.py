"""Record values and gradients of operations that have their own kernels, where PyTorch is installed.

Run `kernel_answers.py > kernels.json` in an environment with PyTorch 2.13.0 and NumPy.

`kernels.json` has, for each case of `CASES`, its results and then the gradients of their sums with fixed weights, as
flat lists. `tests/lazytensor/functional/test_kernel_answers.py` computes the same cases.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    3.0,
    -3.0,
    0.1,
    5.5,
    1e-45,
    -1e-45,
    1e-38,
    3.4e38,
    -3.4e38,
    7e20,
    np.inf,
    -np.inf,
    np.nan,
)
"""Operands of divisions: zeros of both signs, subnormal, small and large numbers, infinities and NaN."""
Function = Callable[..., Any]


def waves(*shape: int, speed: float = 1.3, size: float = 1.0) -> np.ndarray:
    """Return an array of `shape` with different numbers between -`size` and `size`."""
    return (np.sin(np.arange(np.prod(shape)) * speed + speed) * size).astype(np.float32).reshape(shape)


def _division_cases() -> Iterator[tuple[str, Function, list[np.ndarray]]]:
    a, b = (m.ravel() for m in np.meshgrid(np.float32(EDGES), np.float32(EDGES)))
    with np.errstate(all="ignore"):
        # PyTorch's vector code gives NaN for a quotient that overflows, and its code for single numbers does not.
        has_quotient = ~(np.isinf(a / b) & np.isfinite(a) & (b != 0))
    a, b = a[has_quotient], b[has_quotient]
    wide, fine = waves(200, size=1e6), waves(200, speed=0.7, size=3)
    for name in ("fmod", "remainder", "floor_divide"):
        # The gradient of a floor division is an error.
        yield f"{name} edges", lambda torch, a, b, name=name: getattr(torch, name)(a.detach(), b.detach()), [a, b]
    for name in ("fmod", "remainder"):
        yield f"{name} waves", lambda torch, a, b, name=name: getattr(torch, name)(a, b), [wide, fine]


def _grid_cases() -> Iterator[tuple[str, Function, list[np.ndarray]]]:
    shapes = {(2, 3, 4, 5): (2, 6, 7, 2), (1, 2, 3, 1, 4): (1, 2, 4, 5, 3), (1, 2, 9, 8): (1, 9, 10, 2)}
    for shape, points in shapes.items():
        grid = waves(*points, size=2.2)
        # The centres and the outer edges of the corner pixels, the middle, and points far outside.
        grid.reshape(-1)[:12] = [-1, -1, 1, 1, 0, 0, -1, 1, 1e5, 0.5, 0.25, -1e5]
        for mode in ("bilinear", "nearest", "bicubic")[: 3 if len(shape) == 4 else 2]:
            for padding in ("zeros", "border", "reflection"):
                for aligned in (False, True):

                    def sample(torch, x, grid, mode=mode, padding=padding, aligned=aligned):
                        return torch.nn.functional.grid_sample(x, grid, mode, padding, aligned)

                    yield f"grid_sample {mode} {padding} {aligned} {points}", sample, [waves(*shape), grid]


def _loss_cases() -> Iterator[tuple[str, Function, list[np.ndarray]]]:
    rows = [[2, 0, -1, 3, 1], [1, 1, 4, -1, 0], [-1, 2, 3, 0, 1], [0, 1, 2, 3, 4]]
    for reduction in ("mean", "sum", "none"):

        def margin(torch, x, reduction=reduction):
            return torch.nn.functional.multilabel_margin_loss(x, torch.tensor(rows), reduction=reduction)

        yield f"multilabel_margin_loss {reduction}", margin, [waves(4, 5)]
    # A repeated label, an empty target, a target that is too long for its input, and shorter inputs.
    targets, inputs, lengths = [[1, 1, 2, 0], [3, 2, 3, 1], [2, 0, 0, 0], [2, 2, 2, 2]], [8, 5, 8, 4], [3, 4, 0, 4]
    for reduction in ("mean", "sum", "none"):
        for clears in (False, True):
            for blank in (0, 3):

                def ctc(torch, x, reduction=reduction, clears=clears, blank=blank):
                    labels = torch.tensor(targets) if blank == 0 else 3 - torch.tensor(targets).clamp(min=1)
                    return torch.nn.functional.ctc_loss(
                        x.log_softmax(2), labels, torch.tensor(inputs), torch.tensor(lengths), blank, reduction, clears
                    )

                yield f"ctc_loss {reduction} {clears} {blank}", ctc, [waves(8, 4, 4, size=2)]


def _bag_cases() -> Iterator[tuple[str, Function, list[np.ndarray]]]:
    numbers, offsets = [1, 4, 4, 2, 0, 3, 1], [0, 3, 3, 5]
    for mode in ("sum", "mean", "max"):
        for padding in (None, 4):

            def bags(torch, table, mode=mode, padding=padding):
                return torch.nn.functional.embedding_bag(
                    torch.tensor(numbers), table, torch.tensor(offsets), mode=mode, padding_idx=padding
                )

            yield f"embedding_bag {mode} {padding}", bags, [waves(5, 3)]


def _product_cases() -> Iterator[tuple[str, Function, list[np.ndarray]]]:
    a = waves(2, 5, 5) + 3 * np.eye(5, dtype=np.float32)
    b = waves(2, 5, 3, speed=0.7)
    yield "inv", lambda torch, a: torch.linalg.inv(a), [a]
    yield "det", lambda torch, a: torch.linalg.det(a), [a]
    yield "slogdet", lambda torch, a: torch.linalg.slogdet(a), [a]
    yield "solve", lambda torch, a, b: torch.linalg.solve(a, b), [a, b]
    yield "cholesky", lambda torch, a: torch.linalg.cholesky(a @ a.mT), [a]
    yield "lu", lambda torch, a: torch.linalg.lu(a.detach()), [a]
    yield "qr", lambda torch, a: torch.linalg.qr(a), [a]
    for upper in (False, True):
        for left in (False, True):

            def triangular(torch, a, b, upper=upper, left=left):
                return torch.linalg.solve_triangular(a, b if left else b.mT, upper=upper, left=left)

            yield f"solve_triangular {upper} {left}", triangular, [a, b]
    yield "dot", lambda torch, a, b: torch.dot(a, b), [waves(300), waves(300, speed=0.7)]
    yield "mv", lambda torch, a, b: torch.mv(a, b), [waves(30, 20), waves(20, speed=0.7)]
    for beta, alpha in ((1, 1), (0.5, -2)):

        def addmv(torch, z, a, b, beta=beta, alpha=alpha):
            return torch.addmv(z, a, b, beta=beta, alpha=alpha)

        yield f"addmv {beta} {alpha}", addmv, [waves(30), waves(30, 20), waves(20, speed=0.7)]


CASES: dict[str, tuple[Function, list[np.ndarray]]] = {
    name: (function, operands)
    for cases in (_division_cases, _grid_cases, _loss_cases, _bag_cases, _product_cases)
    for name, function, operands in cases()
}


def answers(torch: Any, name: str) -> list[list[float]]:
    """Return the results of a case and the gradients of its operands, by the functions of `torch`."""
    function, arrays = CASES[name]
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    results = function(torch, *leaves)
    results = list(results) if isinstance(results, tuple | list) else [results]
    terms = [(r * torch.tensor(waves(*r.shape, speed=0.9) + 1.5)).sum() for r in results if r.requires_grad]
    if terms:
        sum(terms).backward()
    values = [*results, *(leaf.grad for leaf in leaves if leaf.grad is not None)]
    # The shortest text that reads back as the same float32.
    return [[float(str(number)) for number in v.detach().numpy().ravel()] for v in values]


if __name__ == "__main__":
    import torch

    lines = [f"{json.dumps(name)}: {json.dumps(answers(torch, name))}" for name in CASES]
    print("{\n" + ",\n".join(lines) + "\n}")
