"""Recurrent layers and cells. A layer is one large product over all times, then one small product a time step."""

import math
from typing import Any

from lazytensor.core import source, storage
from lazytensor.core.autocast import half_type, host_half_type
from lazytensor.core.dtype import DType, float32, float64
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.errors import OptionMissing, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import empty, zeros
from lazytensor.functional.csx_refusals import refuse_call, refuse_result
from lazytensor.functional.dropout import dropout
from lazytensor.functional.gather_scatter import index_select, where
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
    """The state after one time, from the product of the input; its first part is the output."""
    after, _ = CELLS[mode].step(TENSOR_FUNCTIONS, gates, linear(state[0], weight, bias), state)
    return after


def _is_one_operation(x: Tensor) -> bool:
    """Whether a layer is recorded as one operation: on the host, in a type that nothing is cast from or to."""
    # A step that has no values is planned for the wafer, and one with a half type is traced for it.
    if storage.is_abstract or half_type() is not None or host_half_type() is not None:
        return False
    # Rounded after each time, a half type gives other numbers than one that is rounded at the end.
    return x.dtype in (float32, float64) and x.spec.shape[0] > 0


_REFUSAL_NAMES = {"LSTM": "lstm_cell", "GRU": "gru_cell"}


class RNNBase(Module):
    """Several layers of one kind of cell; parameters are named as in PyTorch: weight_ih_l0, ..., bias_hh_l1_reverse.

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
                f"{mode} with proj_size={proj_size} is not provided",
                where=source.where(),
                hint="Leave it out, and apply nn.Linear(hidden_size, proj_size, bias=False) to the output.",
            )
        if not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element")
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError("hidden_size and num_layers must be greater than zero")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        # All gates are rows of one matrix, so one product serves them.
        gates, ways = CELLS[mode].gates, 2 if bidirectional else 1
        # This order is that of the names in a state dict, and of the draws of initial values.
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
            # Two biases, where one would do but in a GRU: cuDNN has two, so PyTorch's files do.
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        for name, shape in shapes.items():
            self.register_parameter(name + suffix, Parameter(empty(*shape, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Draw new values: uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        # Biases as well, and all within one bound, weights of the input too.
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh") if self.bias else ("weight_ih", "weight_hh")
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, name + suffix) for name in names] for suffix in suffixes]

    def flatten_parameters(self) -> None:
        """Nothing: there is no order in memory to restore."""

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """[L, N, in] (or [N, L, in] with batch_first, or [L, in]) -> outputs and the last state.

        A packed sequence, known by its `batch_sizes`, gives a packed one.
        """
        # A tensor that is asked for what it lacks looks for names that are like it, which takes ten milliseconds.
        if not isinstance(input, Tensor) and hasattr(input, "batch_sizes"):
            return self._of_packed(input, hx)
        if input.ndim not in (2, 3) or input.spec.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: Expected input to be 2D or 3D with last dimension {self.input_size}, got "
                f"{list(input.shape)} instead"
            )
        refuse_call(self.mode.partition("_")[0].lower(), input=input)
        parts = CELLS[self.mode].parts
        # One part stands alone, two come as a tuple.
        start = None if hx is None else list(hx) if parts == 2 else [hx]
        # Inside, time is the first dimension and there is a batch; a state never has the batch first.
        alone, turned = input.ndim == 2, input.ndim == 3 and self.batch_first
        x = unsqueeze(input, 1) if alone else transpose(input, 0, 1) if turned else input
        start = [unsqueeze(h, 1) for h in start] if start is not None and alone else start
        out, last = self._run(x, start or self._start(x, parts))
        out = squeeze(out, 1) if alone else transpose(out, 0, 1) if turned else out
        last = [squeeze(h, 1) for h in last] if alone else last
        return out, tuple(last) if parts == 2 else last[0]

    def _of_packed(self, packed: Any, hx: Any) -> tuple[Any, Any]:
        """As `forward` for sequences of unlike lengths, the longest first; states stand in the order of the user's."""
        parts, order, back = CELLS[self.mode].parts, packed.sorted_indices, packed.unsorted_indices
        x = packed.padded()
        start = self._start(x, parts) if hx is None else list(hx) if parts == 2 else [hx]
        if hx is not None and order is not None:
            start = [index_select(h, 1, order) for h in start]
        lengths = packed.lengths()
        # A state that has come to the end of its sequence stays as it is; one that comes from the far end waits there.
        going_on = [from_array((t < lengths)[:, None]) for t in range(x.spec.shape[0])]
        out, last = self._run(x, start, going_on)
        last = last if back is None else [index_select(h, 1, back) for h in last]
        return packed.repacked(out), tuple(last) if parts == 2 else last[0]

    def _start(self, x: Tensor, parts: int) -> list[Tensor]:
        ways = 2 if self.bidirectional else 1
        # One state for each layer and way: layer 0 forward, layer 0 backward, layer 1 forward, ...
        shape = (self.num_layers * ways, x.spec.shape[1], self.hidden_size)
        return [pw.tensor_of(full(0.0, Type(shape, x.dtype)), x) for _ in range(parts)]

    def _run(self, x: Tensor, start: list[Tensor], going_on: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        """All layers over [L, N, width]; `going_on` says for each time which sequences have not ended."""
        ends: list[State] = []
        at = 0
        for layer in range(self.num_layers):
            ways = []
            for way, suffix in enumerate(self._suffixes(layer)):
                outputs, end = self._layer(x, suffix, tuple([select(h, 0, at) for h in start]), way == 1, going_on)
                ways.append(outputs)
                ends.append(end)
                at += 1
            # The next layer reads both ways side by side, which is why its input is twice as wide.
            x = ways[0] if len(ways) == 1 else cat(ways, -1)
            # Between layers only: what leaves the last one stays whole.
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = dropout(x, self.dropout)
        return x, [stack(parts) for parts in zip(*ends, strict=True)]

    def _layer(
        self, x: Tensor, suffix: str, state: State, backward: bool, going_on: list[Tensor] | None
    ) -> tuple[Tensor, State]:
        own = self._parameters
        weight, bias, first = own["weight_hh" + suffix], own.get("bias_hh" + suffix), own.get("bias_ih" + suffix)
        is_whole = going_on is None and _is_one_operation(x) and weight.dtype is x.dtype is state[0].dtype
        if is_whole and self.mode != "GRU" and bias is not None and first is not None:
            # One sum of two rows, where that of the products of all times would go over memory once more.
            bias, first = first + bias, None
        # The input of all times in one product; only the state's product has to wait for the step before.
        gates = linear(x, own["weight_ih" + suffix], first)
        if is_whole:
            return self._whole(gates, state, weight, bias, backward)
        outputs = []
        # Unrolled: the graph of the wafer has no loops, and the number of times is part of its shapes.
        rows = unbind(gates)
        times = range(len(rows))
        for t in reversed(times) if backward else times:
            after = _step_cell(self.mode, rows[t], state, weight, bias)
            if going_on is not None:
                after = tuple(where(going_on[t], a, b) for a, b in zip(after, state, strict=True))
            state = after
            outputs.append(state[0])
        # The state that a backward way ends with is that of the first time.
        return stack(outputs[::-1] if backward else outputs), state

    def _whole(
        self, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, backward: bool
    ) -> tuple[Tensor, State]:
        """One operation over all times."""
        products = operand_node(gates)
        added = full(0, Type(products.type.shape[2:], gates.dtype)) if bias is None else operand_node(bias)
        operands = (products, operand_node(weight), added, *(operand_node(s) for s in state))
        layer = call("recurrent", *operands, mode=self.mode, reverse=backward)
        parts = CELLS[self.mode].parts
        outputs, *rest = (pw.tensor_of(call("result", layer, index=k), gates, weight) for k in range(parts))
        return outputs, (select(outputs, 0, 0 if backward else -1), *rest)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        text += "" if self.bias else ", bias=False"
        text += ", batch_first=True" if self.batch_first else ""
        text += f", dropout={self.dropout}" if self.dropout else ""
        return text + (", bidirectional=True" if self.bidirectional else "")


class RNN(RNNBase):
    """Layers of h' = tanh(W x + b + V h + c), or relu. Raises ValueError for another nonlinearity.

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
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory; the state is (h, c).

    >>> import lazytensor as lt
    >>> lt.nn.LSTM(4, 8)(lt.ones(5, 2, 4))[0].shape
    lazytensor.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Layers of gated recurrent units.

    >>> import lazytensor as lt
    >>> lt.nn.GRU(4, 8)(lt.ones(5, 2, 4))[0].shape
    lazytensor.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent layer.

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
        """Draw new values: uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """[N, in] or [in] and the state -> the state after; it starts with zeros."""
        parts = CELLS[self.mode].parts
        if hx is None:
            hx = zeros(*input.spec.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (hx, hx) if parts == 2 else hx
        state = tuple(hx) if parts == 2 else (hx,)
        gates = linear(input, self.weight_ih, self.bias_ih)
        after = _step_cell(self.mode, gates, state, self.weight_hh, self.bias_hh)
        # The vendor's front end lowers whole layers of these, and no single cell.
        if self.mode in _REFUSAL_NAMES:
            after = refuse_result(_REFUSAL_NAMES[self.mode], after)
        return after if parts == 2 else after[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """h' = tanh(W x + b + V h + c), or relu.

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
        # Before Module's constructor has run there is no other way to set an attribute.
        self.__dict__["mode"] = f"RNN_{nonlinearity.upper()}"
        super().__init__(input_size, hidden_size, bias, *args, **kwargs)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", nonlinearity={self.nonlinearity}" if self.nonlinearity != "tanh" else "")


class LSTMCell(RNNCellBase):
    """One step of long short-term memory; the state is (h, c).

    >>> import lazytensor as lt
    >>> lt.nn.LSTMCell(4, 8)(lt.ones(2, 4))[0].shape
    lazytensor.Size([2, 8])
    """

    mode = "LSTM"


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

    >>> import lazytensor as lt
    >>> lt.nn.GRUCell(4, 8)(lt.ones(2, 4)).shape
    lazytensor.Size([2, 8])
    """

    mode = "GRU"
