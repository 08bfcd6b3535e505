"""Recurrent layers and cells.

A layer computes one large matrix product over all time steps, then a small one per step.
"""

import math
from typing import Any

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.autocast import half_type, host_half_type
from lazytensor.core.dtype import DType, float32, float64
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.errors import OptionInvalid, OptionMissing, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import empty, zeros
from lazytensor.functional.csx_refusals import refuse_call, refuse_result
from lazytensor.functional.dropout import dropout
from lazytensor.functional.gather_scatter import index_select, where
from lazytensor.functional.indexing import getitem
from lazytensor.functional.joining_and_splitting import cat, chunk, stack, unbind
from lazytensor.functional.matmul import linear
from lazytensor.functional.views import select, squeeze, transpose, unsqueeze
from lazytensor.ir.types import Type
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter
from lazytensor.ops import call, full
from lazytensor.ops.recurrent_cells import CELLS, CellFunctions

State = tuple[Tensor, ...]
TENSOR_FUNCTIONS = CellFunctions(
    sigmoid=pw.sigmoid, tanh=pw.tanh, relu=pw.relu, parts=lambda x, count: chunk(x, count, -1)
)


def _step_cell(mode: str, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """Return the state after one time step. Its first tensor is the output.

    `gates` is the product of the input with its weights. `weight` and `bias` are those of the state.
    """
    after, _ = CELLS[mode].step(TENSOR_FUNCTIONS, gates, linear(state[0], weight, bias), state)
    return after


def _is_one_operation(x: Tensor) -> bool:
    """Return whether a layer is recorded as one operation: on the host, for nonempty float32 or float64 inputs."""
    # An abstract step is planned for the wafer, and a step with a half type is traced for it.
    if storage.is_abstract or half_type() is not None or host_half_type() is not None:
        return False
    # A half type rounded after each time step differs from one rounded at the end.
    return x.dtype in (float32, float64) and x.spec.shape[0] > 0


_GATES_AFTER_END = {"LSTM": (-math.inf, math.inf, 0.0, 0.0), "RNN_RELU": (-math.inf,)}
"""Inputs of the gates after the end of a sequence. An LSTM then keeps its cell state, because the sigmoid of the input
gate is 0 and that of the forget gate is 1. The state of a ReLU becomes 0, and cannot grow to infinity.
"""


def _reversed_sequences(x: Tensor, lengths: np.ndarray) -> Tensor:
    """Return `x` [L, N, features] with each sequence in reverse order; the rows after its end stay in their places."""
    times, places = np.arange(x.spec.shape[0])[:, None], np.arange(len(lengths))[None, :]
    sources = np.where(times < lengths, lengths - 1 - times, times)
    return getitem(x, (from_array(sources), from_array(np.broadcast_to(places, sources.shape))))


def _dropout_of_sequences(x: Tensor, p: float, lengths: np.ndarray) -> Tensor:
    """Return dropout of the rows of `x` [L, N, features] that are in sequences of `lengths`, and zeros elsewhere.

    The random numbers are those that PyTorch draws for the packed rows.
    """
    is_going_on = np.arange(x.spec.shape[0])[:, None] < lengths
    times, places = np.nonzero(is_going_on)
    rows = dropout(getitem(x, (from_array(times), from_array(places))), p)
    # An additional row of zeros is used for all positions after the end of a sequence.
    sources = np.full(is_going_on.shape, len(times))
    sources[is_going_on] = np.arange(len(times))
    return getitem(cat([rows, zeros(1, x.spec.shape[2], dtype=x.dtype)]), from_array(sources))


_REFUSAL_NAMES = {"LSTM": "lstm_cell", "GRU": "gru_cell"}


class RNNBase(Module):
    """The base of recurrent layers: `num_layers` layers of one kind of cell.

    - `mode`: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
    - `input_size`, `hidden_size`: features of input and state.
    - `bias`: whether there are biases.
    - `batch_first`: input and output are [N, L, features] rather than [L, N, features].
    - `dropout`: probability of dropout between layers in training mode.
    - `bidirectional`: run each layer in both directions and concatenate the outputs.
    - `proj_size`: not supported.

    Parameters are named as in PyTorch: weight_ih_l0, ..., bias_hh_l1_reverse. Raises OptionMissing for `proj_size`, and
    ValueError for invalid sizes or `dropout`.

    >>> import lazytensor as lt
    >>> isinstance(lt.nn.GRU(2, 3), lt.nn.RNNBase)
    True
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        if proj_size:
            raise OptionMissing(
                f"{mode} with proj_size={proj_size} is not supported",
                where=source.where(),
                hint="Remove proj_size, and apply nn.Linear(hidden_size, proj_size, bias=False) to the output.",
            )
        if not 0 <= dropout <= 1:
            raise OptionInvalid(
                "dropout should be a number in range [0, 1] representing the probability of an element"
                f", but got {dropout}",
                where=source.where(),
                hint="Pass dropout between 0 and 1.",
            )
        if hidden_size <= 0 or num_layers <= 0:
            raise OptionInvalid(
                f"hidden_size and num_layers must be greater than zero, but got {hidden_size} and {num_layers}",
                where=source.where(),
                hint="Pass positive numbers.",
            )
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        # All gates are rows of one matrix, so that one product computes them.
        gates, ways = CELLS[mode].gates, 2 if bidirectional else 1
        # The order of the names in a state dict, and of the draws of initial values.
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * ways
            for suffix in self._suffixes(layer):
                self._add(suffix, gates * hidden_size, width, device, dtype)
        self.reset_parameters()

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    def _add(self, suffix: str, rows: int, width: int, device: Any, dtype: DType | None) -> None:
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, self.hidden_size)}
        if self.bias:
            # Two biases, although only the GRU needs both: PyTorch's checkpoints have two, because of cuDNN.
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        for name, shape in shapes.items():
            self.register_parameter(name + suffix, Parameter(empty(*shape, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from -1 / sqrt(hidden_size) to 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        # All parameters have the same bound.
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Return a list of the parameters of each layer and direction."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh") if self.bias else ("weight_ih", "weight_hh")
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, name + suffix) for name in names] for suffix in suffixes]

    def flatten_parameters(self) -> None:
        """Do nothing, since the memory order of parameters does not matter here."""

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Return the outputs of the last layer for all time steps, and the last state of each layer and direction.

        `input` is [L, N, input_size], [N, L, input_size] with `batch_first`, or [L, input_size]; the outputs have
        directions * hidden_size in place of input_size. `hx` is the initial state [layers * directions, N, hidden_size]
        (without N for an input without a batch), for an LSTM a pair; zeros if None. The last state has the same form. A
        packed sequence (an object with `batch_sizes`) gives a packed sequence. Raises ShapeError if `input` has another
        shape.
        """
        # A failed attribute access on a tensor takes ten milliseconds, since it searches for similar names.
        if not isinstance(input, Tensor) and hasattr(input, "batch_sizes"):
            return self._of_packed(input, hx)
        if input.ndim not in (2, 3) or input.spec.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: Expected input to be 2D or 3D with last dimension {self.input_size}, got "
                f"{list(input.shape)} instead",
                where=source.where(),
                hint="Pass an input whose last extent is input_size.",
            )
        refuse_call(self.mode.partition("_")[0].lower(), input=input)
        parts = CELLS[self.mode].parts
        # One state tensor is passed as it is, two as a tuple.
        start = None if hx is None else list(hx) if parts == 2 else [hx]
        # Internally time is the first dimension and there is a batch. A state never has the batch first.
        alone, turned = input.ndim == 2, input.ndim == 3 and self.batch_first
        x = unsqueeze(input, 1) if alone else transpose(input, 0, 1) if turned else input
        start = [unsqueeze(h, 1) for h in start] if start is not None and alone else start
        out, last = self._run(x, start or self._start(x, parts))
        out = squeeze(out, 1) if alone else transpose(out, 0, 1) if turned else out
        last = [squeeze(h, 1) for h in last] if alone else last
        return out, tuple(last) if parts == 2 else last[0]

    def _of_packed(self, packed: Any, hx: Any) -> tuple[Any, Any]:
        """Return the result of `forward` for a packed sequence, sorted by length. States are in the user's order."""
        parts, order, back = CELLS[self.mode].parts, packed.sorted_indices, packed.unsorted_indices
        x = packed.padded()
        start = self._start(x, parts) if hx is None else list(hx) if parts == 2 else [hx]
        if hx is not None and order is not None:
            start = [index_select(h, 1, order) for h in start]
        out, last = self._run(x, start, packed.lengths())
        last = last if back is None else [index_select(h, 1, back) for h in last]
        return packed.repacked(out), tuple(last) if parts == 2 else last[0]

    def _start(self, x: Tensor, parts: int) -> list[Tensor]:
        ways = 2 if self.bidirectional else 1
        # One state for each layer and direction: layer 0 forward, layer 0 backward, layer 1 forward, ...
        shape = (self.num_layers * ways, x.spec.shape[1], self.hidden_size)
        return [pw.tensor_of(full(0.0, Type(shape, x.dtype)), x) for _ in range(parts)]

    def _run(self, x: Tensor, start: list[Tensor], lengths: np.ndarray | None = None) -> tuple[Tensor, list[Tensor]]:
        """Return the outputs [L, N, features] of all layers and the last states.

        `lengths`, if given, are those of the sequences; outputs after the end of a sequence are arbitrary.
        """
        ends: list[State] = []
        at = 0
        for layer in range(self.num_layers):
            ways = []
            for way, suffix in enumerate(self._suffixes(layer)):
                outputs, end = self._layer(x, suffix, tuple([select(h, 0, at) for h in start]), way == 1, lengths)
                ways.append(outputs)
                ends.append(end)
                at += 1
            # The next layer reads the concatenated directions, so its input is twice as wide.
            x = ways[0] if len(ways) == 1 else cat(ways, -1)
            # Between layers only, not after the last one.
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = dropout(x, self.dropout) if lengths is None else _dropout_of_sequences(x, self.dropout, lengths)
        return x, [stack(parts) for parts in zip(*ends, strict=True)]

    def _layer(
        self, x: Tensor, suffix: str, state: State, backward: bool, lengths: np.ndarray | None
    ) -> tuple[Tensor, State]:
        """Return the outputs of one layer in one direction for all time steps, and its last state.

        `suffix` is that of its parameter names. `backward` selects the direction. `lengths` are those of `_run`.
        """
        own = self._parameters
        weight, bias, first = own["weight_hh" + suffix], own.get("bias_hh" + suffix), own.get("bias_ih" + suffix)
        is_whole = _is_one_operation(x) and weight.dtype is x.dtype is state[0].dtype
        if is_whole and self.mode != "GRU" and bias is not None and first is not None:
            # Adding the two bias vectors first saves a pass over the products of all time steps.
            bias, first = first + bias, None
        # One product for the inputs of all time steps; only the state's product depends on the previous step.
        input_weight = own["weight_ih" + suffix]
        if is_whole and lengths is not None:
            ordered = _reversed_sequences(x, lengths) if backward else x
            gates = linear(ordered, input_weight, first)
            outputs, last = self._whole_of_lengths(gates, state, weight, bias, lengths)
            return _reversed_sequences(outputs, lengths) if backward else outputs, last
        gates = linear(x, input_weight, first)
        if is_whole:
            return self._whole(gates, state, weight, bias, backward)
        return self._step_by_step(gates, state, weight, bias, backward, lengths)

    def _step_by_step(
        self,
        gates: Tensor,
        state: State,
        weight: Tensor,
        bias: Tensor | None,
        backward: bool,
        lengths: np.ndarray | None,
    ) -> tuple[Tensor, State]:
        """Return outputs and last state of a layer, recorded cell by cell."""
        outputs = []
        # Unrolled, since the wafer's graph has no loops and its shapes contain the number of time steps.
        rows = unbind(gates)
        times = range(len(rows))
        for t in reversed(times) if backward else times:
            after = _step_cell(self.mode, rows[t], state, weight, bias)
            if lengths is not None:
                # A state stays unchanged after the end of its sequence, and in the backward direction before it.
                is_going_on = from_array((t < lengths)[:, None])
                after = tuple(where(is_going_on, a, b) for a, b in zip(after, state, strict=True))
            state = after
            outputs.append(state[0])
        # The backward direction ends with the state of the first time step.
        return stack(outputs[::-1] if backward else outputs), state

    def _whole(
        self, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, backward: bool
    ) -> tuple[Tensor, State]:
        """Return outputs and last state of a layer recorded as one operation over all time steps."""
        products = operand_node(gates)
        added = full(0, Type(products.type.shape[2:], gates.dtype)) if bias is None else operand_node(bias)
        operands = (products, operand_node(weight), added, *(operand_node(s) for s in state))
        layer = call("recurrent", *operands, mode=self.mode, reverse=backward)
        parts = CELLS[self.mode].parts
        outputs, *rest = (pw.tensor_of(call("result", layer, index=k), gates, weight) for k in range(parts))
        return outputs, (select(outputs, 0, 0 if backward else -1), *rest)

    def _whole_of_lengths(
        self, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, lengths: np.ndarray
    ) -> tuple[Tensor, State]:
        """Return outputs and last state of a forward layer recorded as one operation, for sequences of `lengths`."""
        if self.mode in _GATES_AFTER_END:
            ended = np.repeat(np.array(_GATES_AFTER_END[self.mode], gates.dtype.host), self.hidden_size)
            is_going_on = np.arange(gates.spec.shape[0])[:, None, None] < lengths[:, None]
            gates = where(from_array(is_going_on), gates, from_array(ended))
        outputs, (_, *rest) = self._whole(gates, state, weight, bias, False)
        last = getitem(outputs, (from_array(lengths - 1), from_array(np.arange(len(lengths)))))
        return outputs, (last, *rest)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        text += "" if self.bias else ", bias=False"
        text += ", batch_first=True" if self.batch_first else ""
        text += f", dropout={self.dropout}" if self.dropout else ""
        return text + (", bidirectional=True" if self.bidirectional else "")


class RNN(RNNBase):
    """Recurrent layers with the state h' = tanh(W x + b + V h + c), or relu for `nonlinearity="relu"`.

    The other parameters are those of `RNNBase`. Raises ValueError for another nonlinearity.

    >>> import lazytensor as lt
    >>> lt.nn.RNN(4, 8)(lt.ones(5, 2, 4))[0].shape
    lazytensor.Size([5, 2, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise OptionInvalid(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.",
                where=source.where(),
                hint='Pass nonlinearity="tanh" or nonlinearity="relu".',
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory.

    The state is the pair (h, c). The parameters are those of `RNNBase` without `mode`.

    >>> import lazytensor as lt
    >>> lt.nn.LSTM(4, 8)(lt.ones(5, 2, 4))[0].shape
    lazytensor.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Layers of gated recurrent units. The parameters are those of `RNNBase` without `mode`.

    >>> import lazytensor as lt
    >>> lt.nn.GRU(4, 8)(lt.ones(5, 2, 4))[0].shape
    lazytensor.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """The base of recurrent cells, which compute one time step.

    `input_size` and `hidden_size` are the features of input and state. If `bias` is false, there are no biases.

    >>> import lazytensor as lt
    >>> isinstance(lt.nn.GRUCell(2, 3), lt.nn.RNNCellBase)
    True
    """

    mode = ""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = CELLS[self.mode or "RNN_TANH"].gates * hidden_size
        shapes = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
        }
        for name, shape in shapes.items():
            there = bias or name.startswith("weight")
            self.register_parameter(name, Parameter(empty(*shape, device=device, dtype=dtype)) if there else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from -1 / sqrt(hidden_size) to 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the state after one time step, for `input` [N, input_size] or [input_size] and the state `hx`.

        The state is [N, hidden_size] or [hidden_size], for an LSTM a pair; zeros if `hx` is None.
        """
        parts = CELLS[self.mode].parts
        if hx is None:
            hx = zeros(*input.spec.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (hx, hx) if parts == 2 else hx
        state = tuple(hx) if parts == 2 else (hx,)
        gates = linear(input, self.weight_ih, self.bias_ih)
        after = _step_cell(self.mode, gates, state, self.weight_hh, self.bias_hh)
        # The vendor's front end lowers whole layers of these kinds, but no single cells.
        if self.mode in _REFUSAL_NAMES:
            after = refuse_result(_REFUSAL_NAMES[self.mode], after)
        return after if parts == 2 else after[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """A recurrent cell with the state h' = tanh(W x + b + V h + c), or relu for `nonlinearity="relu"`.

    >>> import lazytensor as lt
    >>> lt.nn.RNNCell(4, 8)(lt.ones(2, 4)).shape
    lazytensor.Size([2, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ):
        # Set directly, since Module's constructor has not run yet.
        self.__dict__["mode"] = f"RNN_{nonlinearity.upper()}"
        super().__init__(input_size, hidden_size, bias, *args, **kwargs)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", nonlinearity={self.nonlinearity}" if self.nonlinearity != "tanh" else "")


class LSTMCell(RNNCellBase):
    """A cell of long short-term memory: one time step with the state (h, c).

    >>> import lazytensor as lt
    >>> lt.nn.LSTMCell(4, 8)(lt.ones(2, 4))[0].shape
    lazytensor.Size([2, 8])
    """

    mode = "LSTM"


class GRUCell(RNNCellBase):
    """A cell of a gated recurrent unit: one time step.

    >>> import lazytensor as lt
    >>> lt.nn.GRUCell(4, 8)(lt.ones(2, 4)).shape
    lazytensor.Size([2, 8])
    """

    mode = "GRU"
