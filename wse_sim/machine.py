"""Parameters of the simulated machines: four presets, and a source for each number.

Keys of the sources: SDKWP, the vendor's SDK technical overview. HC31, the Hot Chips 31 slides. LIE, S. Lie, Cerebras
Architecture Deep Dive (IEEE Micro 2023). ISPD, the ISPD-2020 contest description. LUCZ, Luczynski et al., HPDC'24
(arXiv:2404.15888) and its code. EX, the vendor's csl-examples. SPMM, cycle counts in the public SpMM_Cerebras
repository. ALCF, a public file of measurements on WSE-3 silicon and in its simulator. STEN, timings in the public
stencil-cerebras repository. JOR, cycles of tiled stencils in the public repository Jorineg/cerebras at 911a327, both
wafers in the vendor's simulator. A number without a published source is marked "assumed", with the assumption.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError

SourcedValues = Mapping[str, tuple[float, str]]
"""Field name -> (value, source of the value)."""

# Reserved PEs and latencies may be zero. The other fields are divisors or counts, so they have to be positive.
_FIELDS_THAT_MAY_BE_ZERO = (
    "reserved_columns",
    "reserved_rows",
    "turn_cycles",
    "descriptor_load_cycles",
    "loop_cycles",
    "launch_cycles",
    "task_start_cycles",
)


@dataclass(frozen=True)
class Machine:
    """A mesh of processing elements (PEs) with its edge I/O.

    Rates are elements per cycle and PE, and a suffix `f16` or `f32` is the width of an element. `special` stands for
    division, exponential, logarithm and similar library routines.

    - `name`: name of the machine
    - `width`, `height`: all PEs of the mesh, in columns and rows
    - `reserved_columns`, `reserved_rows`: PEs that a program does not get
    - `clock_hz`: cycles in a second
    - `sram_bytes_per_pe`, `usable_bytes_per_pe`: memory of a PE, and the part that a program may use
    - `fma_*_per_cycle`, `add_*_per_cycle`, `move_*_per_cycle`: elements that a vector operation handles in a cycle
    - `product_f16_per_cycle`: the same for multiply-adds whose sums stay in place while a loop runs, as in a product
    - `shifted_add_f32_per_cycle`: the rate of an `add` if words of its two sources that are read together share a pair
      of memory banks
    - `conflict_add_f32_per_cycle`: the same if both sources start in one pair of banks
    - `special_*_cycles`: cycles of one `special` element
    - `dsd_setup_cycles`: cycles before the first element of a vector operation whose descriptors are in registers
    - `descriptor_load_cycles`: cycles of loading the descriptors of a vector operation into registers
    - `descriptors`: vector operations whose descriptors fit into registers at the same time
    - `loop_cycles`: cycles of the jump back to the start of a loop
    - `conflict_slowdown`: factor on the time of elements if two operands are in the same memory bank; additions of
      float32 elements have `conflict_add_f32_per_cycle` instead
    - `launch_cycles`: cycles between the tasks of a program before the first word of a collective moves
    - `task_start_cycles`: cycles from the event that lets a task run to its first instruction
    - `link_bits`: bits of data in a wavelet
    - `wavelet_cycles`: cycles that a wavelet occupies a link
    - `hop_cycles`: latency from router to router
    - `ramp_cycles`: latency between core and router (T_R)
    - `turn_cycles`: extra latency where a route changes its axis
    - `colours`: colours that can be routed
    - `queue_depth`: wavelets that a queue of a router or a core stores
    - `microthreads`: asynchronous vector operations that a core runs at the same time
    - `sram_banks`: memory banks of a PE
    - `edge_bits_per_s`: rate of the wafer's edge I/O, each way
    - `sources`: field name -> source of the number

    Raises LazyError for a number that is negative, or zero in a field that must be positive, and if all PEs are
    reserved.

    >>> import wse_sim
    >>> wse_sim.WSE2.usable_pes
    745500
    """

    name: str
    width: int
    height: int
    reserved_columns: int
    reserved_rows: int
    clock_hz: float
    sram_bytes_per_pe: int
    usable_bytes_per_pe: int
    fma_f16_per_cycle: float
    fma_f32_per_cycle: float
    product_f16_per_cycle: float
    add_f16_per_cycle: float
    add_f32_per_cycle: float
    shifted_add_f32_per_cycle: float
    conflict_add_f32_per_cycle: float
    move_f16_per_cycle: float
    move_f32_per_cycle: float
    special_f16_cycles: float
    special_f32_cycles: float
    dsd_setup_cycles: float
    descriptor_load_cycles: float
    descriptors: int
    loop_cycles: float
    conflict_slowdown: float
    launch_cycles: float
    task_start_cycles: float
    link_bits: int
    wavelet_cycles: float
    hop_cycles: float
    ramp_cycles: float
    turn_cycles: float
    colours: int
    queue_depth: int
    microthreads: int
    sram_banks: int
    edge_bits_per_s: float
    sources: Mapping[str, str] = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in NUMERIC_FIELDS:
            value = getattr(self, name)
            # A zero would cause a division error far from its cause.
            if value < 0 or (value == 0 and name not in _FIELDS_THAT_MAY_BE_ZERO):
                raise LazyError(f"machine {self.name!r} has {name} = {value}", hint="Give a positive number.")
        if self.usable_width < 1 or self.usable_height < 1:
            raise LazyError(
                f"machine {self.name!r} reserves all rows or all columns of its mesh",
                hint="Reserve fewer rows or columns.",
            )

    def _repr_html_(self) -> str:
        """Return an HTML table of the machine's numbers, each with its source."""
        rows = [(name, f"{getattr(self, name):,}", self.sources.get(name, "")) for name in NUMERIC_FIELDS]
        columns = (Column("", is_words=True), Column(self.name), Column("source", is_words=True))
        return Table(columns, rows).html()

    @classmethod
    def by_name(cls, name: str) -> "Machine":
        """Return the preset called `name`, in any of the spellings that `canonical_machine_name` accepts.

        Raises LazyError, which lists the presets, if there is no such preset.

        >>> Machine.by_name("wse2").colours
        24
        >>> Machine.by_name("CS-3").name
        'wse3'
        """
        known = canonical_machine_name(name)
        if known not in MACHINES:
            raise LazyError(
                f"machine {name!r} is unknown", hint=f"Use one of {', '.join(MACHINES)}, or CS-1, CS-2, CS-3."
            )
        return MACHINES[known]

    @classmethod
    def of(cls, machine: "Machine | str") -> "Machine":
        """Return `machine` itself, or the preset of that name; see `by_name`.

        Raises LazyError for an unknown name, and for an object that is neither a machine nor a name.

        >>> Machine.of("wse2") is Machine.of(WSE2)
        True
        """
        if isinstance(machine, Machine):
            return machine
        if isinstance(machine, str):
            return cls.by_name(machine)
        raise LazyError(
            f"{machine!r} is not a machine", hint=f"Give a Machine or one of the names {', '.join(MACHINES)}."
        )

    @property
    def usable_width(self) -> int:
        """Number of columns that a program may use."""
        return self.width - self.reserved_columns

    @property
    def usable_height(self) -> int:
        """Number of rows that a program may use."""
        return self.height - self.reserved_rows

    @property
    def usable_pes(self) -> int:
        """Number of PEs that a program may use."""
        return self.usable_width * self.usable_height

    @property
    def edge_bits_per_cycle(self) -> float:
        """Bits that cross the wafer's edge in one cycle, in each direction."""
        return self.edge_bits_per_s / self.clock_hz

    @property
    def depth_step_cycles(self) -> float:
        """Cycles of one dependent visit of a core: up the ramp, store, down the ramp (2 T_R + 1, LUCZ)."""
        return 2 * self.ramp_cycles + 1

    @property
    def bank_pairs(self) -> int:
        """Number of pairs of memory banks, over which consecutive words are interleaved; 1 for a single bank."""
        return max(1, self.sram_banks // 2)

    @property
    def loaded_setup_cycles(self) -> float:
        """Cycles before the first element of a vector operation whose descriptors have to be loaded first."""
        return self.dsd_setup_cycles + self.descriptor_load_cycles

    def per_cycle(self, op: str, itemsize: int) -> float:
        """Return how many elements of `itemsize` bytes one PE handles in a cycle.

        `op` is "fma", "product", "add", "move" or "special". Elements of up to 2 bytes run at the 16-bit rate, 4 bytes
        at the 32-bit rate, and 8 bytes at half of the 32-bit rate. The rate of "special" has only two values: up to 2
        bytes, and more. "product" is "fma" with sums that stay in place while a loop runs; it differs for 2 bytes only.
        """
        if op == "product":
            return self.product_f16_per_cycle if itemsize <= 2 else self.per_cycle("fma", itemsize)
        # Library routines are published in cycles per element, since no vector unit runs them.
        if op == "special":
            return 1 / (self.special_f16_cycles if itemsize <= 2 else self.special_f32_cycles)
        if itemsize <= 2:
            return float(getattr(self, f"{op}_f16_per_cycle"))
        return float(getattr(self, f"{op}_f32_per_cycle")) / (itemsize / 4)


# Taken from the class, so that a new field is validated and drawn by the property tests without being listed.
NUMERIC_FIELDS = tuple(f.name for f in fields(Machine) if f.name not in ("name", "sources"))


def _build_machine(name: str, table: SourcedValues) -> Machine:
    values: dict[str, Any] = {key: value for key, (value, _) in table.items()}
    return Machine(name=name, sources={key: source for key, (_, source) in table.items()}, **values)


# The text names both the original source and that the value is carried over from the WSE-2.
def _assume_wse2_values(*names: str) -> SourcedValues:
    return {n: (_WSE2[n][0], f"assumed as on WSE-2 ({_WSE2[n][1]})") for n in names}


# Two constants, the `special` rate and the launch, were fitted together on two rows, so both have this source.
_DECODING_SOURCE = (
    "fitted with one other on two rows: decoding LLaMA3-8B on 420^2 and 660^2 PEs (WaferLLM, OSDI 2025, table 4)"
)

_TASK_START_SOURCE = "ALCF: a task fires 3 cycles after the last wavelet, in the vendor's simulator of the WSE-3"

_WSE2: SourcedValues = {
    "width": (757, "LUCZ: fabric dimensions passed to the compiler in the published job scripts"),
    "height": (996, "LUCZ: as the width"),
    "reserved_columns": (7, "EX: with host transfers a program may be at most the fabric's width - 7"),
    "reserved_rows": (2, "EX: with host transfers a program may be at most the fabric's height - 2"),
    "clock_hz": (0.85e9, "EX, LUCZ: cycles to seconds at 850 MHz; LIE names 1.1 GHz as the maximum"),
    "sram_bytes_per_pe": (49_152, "SDKWP, LIE: 48 KiB"),
    "usable_bytes_per_pe": (44_976, "ALCF: the smallest program with host transfers occupies 4,176 bytes (WSE-3 SDK)"),
    "fma_f16_per_cycle": (4, "LIE: four 16-bit multiply-adds a cycle"),
    "fma_f32_per_cycle": (1, "SPMM: N + 6 cycles for N elements without bank conflict; 2 N + 6 with one"),
    "product_f16_per_cycle": (4, "LIE: four 16-bit multiply-adds a cycle"),
    "add_f16_per_cycle": (4, "LIE: four 16-bit lanes"),
    "add_f32_per_cycle": (2, "SPMM: N / 2 cycles if the sources start two of the four pairs of banks apart"),
    "shifted_add_f32_per_cycle": (1, "SPMM: N + 6 cycles if the sources start in adjacent pairs of banks"),
    "conflict_add_f32_per_cycle": (0.5, "SPMM: 2 N + 6 cycles if the sources start in one pair of banks"),
    "move_f16_per_cycle": (4, "derived from the 64-bit write port of LIE"),
    "move_f32_per_cycle": (2, "derived from the 64-bit write port of LIE"),
    "special_f16_cycles": (16, _DECODING_SOURCE),
    "special_f32_cycles": (50, "EX: a comment gives about 50 cycles for a division; assumed for exp, log and sqrt too"),
    "dsd_setup_cycles": (6, "SPMM: the constant in N + 6"),
    "descriptor_load_cycles": (
        0,
        "assumed none: programs keep descriptors in registers; SPMM: 28 cycles if they do not",
    ),
    "descriptors": (16, "the vendor's SDK: 16 registers for each of destination and two sources"),
    "loop_cycles": (10, "assumed from ALCF: the back edge of a loop takes 9 to 10 cycles on WSE-3"),
    "conflict_slowdown": (2, "SPMM: 2 N + 6 instead of N + 6 if the operands are in one bank"),
    "launch_cycles": (117, _DECODING_SOURCE),
    "task_start_cycles": (3, f"assumed as on WSE-3 ({_TASK_START_SOURCE})"),
    "link_bits": (32, "SDKWP: 32 bits a cycle and direction"),
    "wavelet_cycles": (1, "SDKWP: one wavelet a cycle and link"),
    "hop_cycles": (1, "LUCZ: one cycle from router to router"),
    "ramp_cycles": (2, "LUCZ: T_R = 2, fitted there"),
    "turn_cycles": (0, "LUCZ: the model has no term for turns; assumed none"),
    "colours": (24, "SDKWP, EX: ids 0 to 23 can be routed"),
    "queue_depth": (2, "assumed: no source states it; 2 is the minimum for one wavelet a cycle on a link"),
    "microthreads": (8, "EX: ids 0 to 7 for operations that run beside a task"),
    "sram_banks": (8, "LIE: eight banks of 6 KiB, each 32 bits wide"),
    "edge_bits_per_s": (1.2e12, "SDKWP: 12 x 100 Gb Ethernet"),
}

_WSE1: SourcedValues = {
    **_assume_wse2_values(*_WSE2),
    "width": (633, "ISPD: fabric of 633 x 633"),
    "height": (633, "ISPD: fabric of 633 x 633"),
    "reserved_columns": (0, "ISPD: the contest places on all of the 633 columns"),
    "reserved_rows": (0, "ISPD: the contest places on all of the 633 rows"),
    "sram_bytes_per_pe": (49_152, "ISPD: memory limit of 24,576 words of 2 bytes"),
    "edge_bits_per_s": (1.2e12, "HC31: 12 x 100 Gb Ethernet"),
}

_WSE3: SourcedValues = {
    # All values of the WSE-2 first; those published for the WSE-3 override them.
    **_assume_wse2_values(*_WSE2),
    "width": (762, "ALCF: fabric dimensions of the compiled programs"),
    "height": (1172, "ALCF: fabric dimensions of the compiled programs"),
    "clock_hz": (0.875e9, "STEN: 3,598 cycles are reported as 4.112 us"),
    "sram_bytes_per_pe": (49_152, "ALCF: 48 KiB, measured"),
    "usable_bytes_per_pe": (44_976, "ALCF: the smallest program with host transfers occupies 4,176 bytes"),
    "fma_f16_per_cycle": (2.92, "ALCF: silicon; the vendor's simulator gives 4"),
    "fma_f32_per_cycle": (1, "JOR: as on WSE-2 within 0.5 %; ALCF: 0.5, the rate of operands in one pair of banks"),
    "product_f16_per_cycle": (8, "the vendor: 12.5 PFLOP/s dense are 8 multiply-adds of each PE in a cycle"),
    "add_f16_per_cycle": (2.92, "assumed as the multiply-add of ALCF, which moves as many operands"),
    "shifted_add_f32_per_cycle": (4 / 3, "JOR: tiles of 20, 40 and 60 cells a side; 4.0 cycles a cell, 3 in four adds"),
    "conflict_add_f32_per_cycle": (4 / 3, "JOR: tiles of 15 and 25 cells a side take as long for a cell"),
    "move_f16_per_cycle": (4.82, "ALCF: silicon; the vendor's simulator gives 8"),
    "move_f32_per_cycle": (2.44, "ALCF: silicon; the vendor's simulator gives 4"),
    "dsd_setup_cycles": (6, "ALCF: 2,840 cycles for a loop of 256 operations of 16 elements, 11 each in the simulator"),
    "descriptor_load_cycles": (10, "ALCF: 15 to 17 cycles before a single vector operation starts"),
    "task_start_cycles": (3, _TASK_START_SOURCE),
    "loop_cycles": (0, "ALCF: the 11 cycles of each operation in a mapped loop have room for one cycle of the loop"),
    "wavelet_cycles": (1.125, "ALCF: cycles per wavelet in a stream on silicon; 1.000 in the simulator"),
    "hop_cycles": (2, "ALCF: silicon; more than 32 hops westward take longer"),
    "ramp_cycles": (
        0.5,
        "ALCF: 2 T_R + 1 = 2.07 fitted to whole programs, rounded to 2: 1 cycle to the core, none back",
    ),
    "turn_cycles": (20, "ALCF: silicon, extra cycles where a route changes its axis"),
}

_TINY_SOURCE = "chosen for teaching: every figure fits on a page"
_TINY: SourcedValues = {
    **_WSE2,
    "width": (8, _TINY_SOURCE),
    "height": (8, _TINY_SOURCE),
    "reserved_columns": (0, _TINY_SOURCE),
    "reserved_rows": (0, _TINY_SOURCE),
    "edge_bits_per_s": (8 * 32 * 0.85e9, "chosen for teaching: one full link for each row"),
}

TINY = _build_machine("tiny", _TINY)
WSE1 = _build_machine("wse1", _WSE1)
WSE2 = _build_machine("wse2", _WSE2)
WSE3 = _build_machine("wse3", _WSE3)
POWER_W: Mapping[str, tuple[float, float]] = {"wse2": (16_100.0, 22_800.0)}
"""Machine -> (idle watts, mean watts of a run) of one system, measured with a 25-point stencil on a CS-2.

Source: Jacquelin et al., SC'22 (arXiv:2204.03775). No figure of another machine was found.
"""
MACHINES = {m.name: m for m in (TINY, WSE1, WSE2, WSE3)}
"""Name of a preset -> its machine."""
_WAFER_OF_SYSTEM: Mapping[str, str] = {"cs1": "wse1", "cs2": "wse2", "cs3": "wse3"}


def canonical_machine_name(name: str) -> str:
    """Return the name of a preset for another spelling of it: capitals, a hyphen, or the name of the system.

    A CS-2 is the system around a WSE-2. An unknown name is returned unchanged.

    >>> canonical_machine_name("CS-2"), canonical_machine_name("WSE-3"), canonical_machine_name("no-such")
    ('wse2', 'wse3', 'no-such')
    """
    letters = name.lower().replace("-", "").replace("_", "")
    known = _WAFER_OF_SYSTEM.get(letters, letters)
    return known if known in MACHINES else name
