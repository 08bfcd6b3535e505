"""A product with sparse weights that stream in: only what is not zero is sent, and each weight triggers its work.

Activations stay on the mesh, inputs along y and tokens along x, and a column of cores on the left feeds each row with
the weights of its inputs, which all PEs of the row take as they pass. A float32 weight is two wavelets, the numbers of
its input and output and then its value; one of 16 bits is a single wavelet of input and value, in the order of outputs,
of which the program knows how many weights each has. Partial sums of a column then go up to its first PE. The weights
of a row are all there before its work begins: that the two overlap on the machine is not in this program.
"""

import numpy as np

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.isa.packing import pack, view
from wse_sim.kernels.kernel import INDEX, MeshKernel, Placed, Room
from wse_sim.layout import Rect, part
from wse_sim.phase import Broadcast, Local, Par, Phase, Reduce, Seq


def streamed_product(rect: Rect, weights: np.ndarray, tokens: int, dtype: str = "float32") -> MeshKernel:
    """y [outputs, tokens] = weights^T x of x [inputs, tokens], for the pattern of `weights` [inputs, outputs].

    The first column of `rect` holds the stream, as `stream_of` makes it. Raises LazyError for a rectangle without
    other columns.
    """
    inputs, outputs = weights.shape
    feeders = Rect(rect.x, rect.y, 1, rect.height)
    mesh = Rect(rect.x + 1, rect.y, rect.width - 1, rect.height)
    room = Room()
    x = room.place("x", mesh, inputs, tokens, dtype)
    y = room.place("y", mesh, outputs, tokens, dtype, row_kind="replicated")
    length = stream_of(weights, rect.height, dtype).shape[1]
    stream = room.place("stream", feeders, rect.height, length, INDEX)
    numbers = room.vector(2, INDEX)
    rows = [_row(mesh, row, weights, room, (x, y, stream), numbers) for row in range(rect.height)]
    total = Reduce(mesh, axis="y", words=y.words, at=y.address, dtype=dtype)
    first = Rect(mesh.x, mesh.y, mesh.width, 1)
    result = Placed(name="y", rect=first, rows=outputs, columns=tokens, dtype=dtype, address=y.address)
    return MeshKernel(Seq((Par(tuple(rows)), total)), (x, stream), (result,), room.words)


def stream_of(weights: np.ndarray, rows: int, dtype: str = "float32") -> np.ndarray:
    """What the feeder of each of `rows` rows of PEs sends, as numbers of 16 bits [rows, longest]; the rest is zero."""
    streams = []
    for row in range(rows):
        own = np.asarray(weights, np.float32)[_inputs(weights, rows, row)]
        outputs, inputs = np.nonzero(own.T)
        # Indices and values share one stream of 16-bit numbers, as sparse wavelets have 16 bits of each.
        values = view(pack(own[inputs, outputs][:, None], dtype), INDEX)
        heads = [inputs, outputs] if dtype == "float32" else [inputs]
        tails = values if dtype == "float32" else values[:, :1]
        streams.append(np.concatenate([*(h[:, None] for h in heads), tails], 1).astype(np.uint16).reshape(-1))
    longest = max(1, *(len(s) for s in streams))
    return np.array([np.pad(s, (0, longest - len(s))) for s in streams])


def wavelets_of(weights: np.ndarray, dtype: str = "float32") -> int:
    """Wavelets that the feeders send: two for each weight that is not zero, in 16 bits one."""
    return int(np.count_nonzero(weights)) * (2 if dtype == "float32" else 1)


def _inputs(weights: np.ndarray, rows: int, row: int) -> slice:
    own = part("block", len(weights), rows, row)
    return slice(own.start, own.stop)


def _row(
    mesh: Rect, row: int, weights: np.ndarray, room: Room, placed: tuple[Placed, Placed, Placed], numbers: Memory
) -> Phase:
    """The weights of one row of PEs pass, and its PEs add up products."""
    x, y, stream = placed
    own = weights[_inputs(weights, mesh.height, row)]
    build = room.builder()
    build.move(y.vector(), 0.0, y.elements)
    local = Rect(mesh.x, mesh.y + row, mesh.width, 1)
    # Rows whose weights are all zero get none: work goes with what is not zero.
    if not own.any():
        return Local(local, build.body())
    _products(build, np.count_nonzero(own, axis=0), x, y, stream, numbers)
    line = Rect(mesh.x - 1, mesh.y + row, mesh.width + 1, 1)
    sent = Broadcast(line, axis="x", words=wavelets_of(own, x.dtype), take=stream.address, put=stream.address)
    return Seq((sent, Local(local, build.body())))


def _products(build: Builder, counts: np.ndarray, x: Placed, y: Placed, stream: Placed, numbers: Memory) -> None:
    """For each weight: read its numbers, and add its multiple of a row of x to a row of y."""
    tokens = x.tile_columns
    named = Memory(x.base, stride=1, dtype=x.dtype, index=numbers.base, index_step=tokens)
    if x.dtype == "float32":
        target = Memory(y.base, stride=1, dtype=y.dtype, index=numbers.base + 1, index_step=tokens)
        value = Memory(stream.address + 1, stride=0, dtype=x.dtype, steps=(2,))
        with build.loop(int(counts.sum())):
            # The indices go to fixed places first, since an operand's index is read at one address.
            build.move(numbers, stream.vector(steps=(4,)), 2)
            build.fmac(target, value, named, target, tokens)
        return
    start = 0
    for output in np.flatnonzero(counts):
        target = y.vector(start=int(output) * tokens)
        value = Memory(stream.base + start + 1, stride=0, dtype=x.dtype, steps=(2,))
        with build.loop(int(counts[output])):
            build.move(numbers, stream.vector(steps=(2,), start=start), 1)
            build.fmac(target, value, named, target, tokens)
        start += 2 * int(counts[output])
