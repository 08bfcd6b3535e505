"""Place networks of published kinds in pipelined mode, and compare the slowest stage with the area bound.

A network is a script with arguments, on the machine and with the batch of its row. GPT-2 is placed with 1,024 tokens,
for which it was published. With the 2,048 tokens of the streamed run its activations need twice the available memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError
from wse_sim.machine import Machine
from wse_sim.planner.modes import plan
from wse_sim.validation.whole_runs import StepRecorder

MAX_BOUND_RATIO = 1.05
"""Maximum accepted ratio of the slowest stage to the area bound, in the placement where that stage is fastest."""


@dataclass(frozen=True)
class NetConfig:
    """A network to place: script, machine, batch size, and arguments of the script."""

    script: str
    machine: str
    batch_size: int
    args: tuple[str, ...] = ()


NETS: Mapping[str, NetConfig] = {
    "fc_mnist": NetConfig("fc_mnist.py", "wse2", 256),
    "resnet18": NetConfig("resnet18.py", "wse2", 64),
    "bert_large": NetConfig("bert_large.py", "wse2", 1024),
    "gpt2_small": NetConfig("gpt2.py", "wse2", 120, ("--length", "1024")),
    "gpt2_small_cs3": NetConfig("gpt2.py", "wse3", 120, ("--length", "1024")),
}


@dataclass(frozen=True)
class PlacedNet:
    """The result of placing a network. If it does not fit, `reason` is set and the numbers are zero.

    - `net`, `machine`, `batch_size`: the network
    - `stages`: number of stages
    - `slowest_cycles`: the slowest stage in the placement with the fastest step
    - `shortest_cycles`: the slowest stage in the placement with the fastest rhythm
    - `bound_cycles`: the area bound
    - `routes`: number of routes
    - `router_colours`, `machine_colours`: colours on the fullest router, and colours of the machine
    - `link_share`, `adapter_share`: time of the fullest link and of the slowest adapter over that of the slowest stage
    - `limit`: the kind of the bound that decides
    - `reason`: why it does not fit
    """

    net: str
    machine: str
    batch_size: int
    stages: int = 0
    slowest_cycles: int = 0
    shortest_cycles: int = 0
    bound_cycles: int = 0
    routes: int = 0
    router_colours: int = 0
    machine_colours: int = 0
    link_share: float = 0.0
    adapter_share: float = 0.0
    limit: str = ""
    reason: str = ""

    @property
    def ratio(self) -> float:
        """Return `shortest_cycles` over the area bound, or infinity without a bound."""
        return self.shortest_cycles / self.bound_cycles if self.bound_cycles else float("inf")


def place_nets(names: Iterable[str], record: StepRecorder) -> list[PlacedNet]:
    """Return the placed networks of these names, or all networks if there are no names.

    `record` returns the recorded step of a script. Raise LazyError for an unknown name.
    """
    wanted = list(names)
    if unknown := [name for name in wanted if name not in NETS]:
        raise LazyError(f"unknown network {unknown[0]!r}", hint=f"Use one of {', '.join(NETS)}.")
    return [place_net(name, NETS[name], record) for name in wanted or NETS]


def place_net(name: str, net: NetConfig, record: StepRecorder) -> PlacedNet:
    """Place one network as a single copy of its pipeline on the whole mesh, and return what the plan says of it.

    The result has the cycles of the slowest stage and their lower bounds, the numbers of routes and colours, the
    times of links and adapter as shares of that of the slowest stage, and what limits the rate. If the network does
    not fit, it has the reason instead.
    """
    machine = Machine.by_name(net.machine)
    # Plan the program without its source, so that only one copy on the whole mesh is possible.
    program = record(net.script, net.args).program(net.batch_size)
    whole = plan(program, machine, "pipelined", other=False)
    report, placement = whole.report.pipelined, whole.chosen.placement
    if not report.fits or placement is None:
        return PlacedNet(net=name, machine=net.machine, batch_size=net.batch_size, reason=report.reason)
    # All rates are for the same batch, so their ratios are ratios of times.
    rates = {bound.kind: bound.samples_per_s for bound in report.bounds}
    stage = rates.get("compute", rates.get("moving", 0.0))
    return PlacedNet(
        net=name,
        machine=net.machine,
        batch_size=net.batch_size,
        stages=len({row.rect for row in report.rows}),
        slowest_cycles=report.slowest_cycles,
        shortest_cycles=placement.shortest_cycles,
        bound_cycles=report.bound_cycles,
        routes=len(report.routes),
        router_colours=report.router_colours,
        machine_colours=int(machine.colours),
        link_share=stage / rates["link"] if "link" in rates else 0.0,
        adapter_share=stage / rates["adapter"] if "adapter" in rates else 0.0,
        limit=report.limit,
    )


def placements_as_dict(placed: Sequence[PlacedNet]) -> dict[str, Any]:
    """Return the results as plain data for JSON."""
    return {"largest_ratio": MAX_BOUND_RATIO, "nets": [{**asdict(one), "ratio": one.ratio} for one in placed]}


def make_placement_table(placed: Sequence[PlacedNet]) -> Table:
    """Return a table with a row for each network."""
    return Table(_PLACEMENT_COLUMNS, [_table_row(one) for one in placed])


def _table_row(one: PlacedNet) -> tuple[Any, ...]:
    """Return the row of a network. The last column is the share of adapter PEs.

    If the network does not fit, the last column has the reason, and figures are 0 or "-".
    """
    if one.reason:
        return one.net, one.machine, one.batch_size, 0, "-", "-", "-", "-", "-", "-", one.reason
    return (
        one.net,
        one.machine,
        one.batch_size,
        one.stages,
        f"{one.shortest_cycles:,}",
        f"{one.ratio:.3f}",
        f"{one.slowest_cycles:,}",
        one.routes,
        f"{one.router_colours} of {one.machine_colours}",
        f"{one.link_share:.0%}",
        f"{one.adapter_share:.0%}",
    )


_PLACEMENT_COLUMNS = (
    Column("net", is_words=True),
    Column("machine", is_words=True),
    Column("batch", "{:,}".format),
    Column("stages"),
    Column("fastest rhythm"),
    Column("over bound"),
    Column("in use"),
    Column("routes"),
    Column("colours"),
    Column("link"),
    Column("adapter"),
)
