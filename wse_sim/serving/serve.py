"""Plans of serving: how fast users get tokens, how many users fit, and what limits both."""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.host import APPLIANCE, Host
from wse_sim.layout import ceil_div
from wse_sim.machine import POWER_W, Machine
from wse_sim.serving.decoder import Decoder, find_decoder
from wse_sim.serving.layer_phases import LayerMesh
from wse_sim.serving.regions import RegionGrid, Replica, region_grids, replicas_on
from wse_sim.serving.report import ResourceGain, ServingPlan

WEIGHT_BITS = (16, 8)
"""Values of `weight_bits`."""
DEFAULT_TOKENS = 1024
"""Tokens of a prompt, and of an answer, by default."""
MAX_WAFERS = 4096
"""Maximum number of wafers. The search for the wafers that a model needs ends here."""
MAX_SIDE_PES = 4096
"""Maximum number of rows and of columns of a wafer; published wafers have about a thousand."""
_CHUNK_TOKENS = (1, 16, 64, 256, 1024, 4096, 16384)
"""Numbers of prompt tokens that enter the pipeline together, besides the whole prompt."""


@dataclass(frozen=True)
class _Request:
    """What the users need: `users` at the same time, with `prompt` and `generated` tokens each."""

    users: int
    prompt: int
    generated: int

    @property
    def context(self) -> int:
        """Tokens that the cache of a user has to hold."""
        return self.prompt + self.generated

    @property
    def mean_context(self) -> int:
        """Tokens in the cache while a token is decoded, on average."""
        return self.prompt + self.generated // 2


@dataclass(frozen=True)
class _Placement:
    """`copies` replicas of a model, and the `batch` of users that pass its pipeline together."""

    replica: Replica
    copies: int
    batch: int

    def fits(self, request: _Request) -> bool:
        """Return whether the users and a batch of them fit into the memory."""
        return self.replica.fits(_share(request.users, self.copies), request.context, self.batch)

    def through_seconds(self, request: _Request) -> float:
        """Return the seconds in which a batch passes all stages."""
        return self.replica.decode_seconds(request.mean_context, self.batch)[0]

    def token_seconds(self, request: _Request) -> float:
        """Return the seconds between two tokens of one user.

        Batches follow each other through the stages, so they wait for the slowest stage if there are more batches than
        stages.
        """
        through, slowest = self.replica.decode_seconds(request.mean_context, self.batch)
        return max(through, ceil_div(_share(request.users, self.copies), self.batch) * slowest)

    def fastest_chunk(self, request: _Request) -> tuple[int, bool]:
        """Return the fastest way to process a prompt that fits into the memory: its arguments of `prefill_seconds`."""
        return min(self._chunks(request), key=lambda chunk: self.replica.prefill_seconds(request.prompt, *chunk))

    def _chunks(self, request: _Request) -> Iterator[tuple[int, bool]]:
        """Yield the (tokens of a chunk, whether weights stay in place) that fit into the memory."""
        mesh, users = self.replica.mesh, _share(request.users, self.copies)
        free = min(
            mesh.machine.usable_bytes_per_pe - self.replica.used_bytes(stage, users, request.context, 0)
            for stage in self.replica.stages
        )
        for chunk in (*(n for n in _CHUNK_TOKENS if n < request.prompt), request.prompt):
            # One token at a time always fits, since one token is decoded at a time.
            if chunk == 1 or mesh.decoding_bytes(request.prompt, chunk) <= free:
                yield chunk, True
            if mesh.prefill_bytes(chunk, request.prompt) <= free:
                yield chunk, False


def _share(users: int, copies: int) -> int:
    return ceil_div(users, copies)


def serve(
    model: Decoder | Mapping[str, Any] | str | pathlib.Path,
    machine: Machine | str,
    *,
    wafers: int | None = 1,
    users: int = 1,
    prompt_tokens: int = DEFAULT_TOKENS,
    generated_tokens: int = DEFAULT_TOKENS,
    weight_bits: int = 16,
    host: Host = APPLIANCE,
    name: str = "",
) -> ServingPlan:
    """Return the plan of serving a decoder-only model with its weights and caches in the memory of the wafers.

    - `model`: extents, a Hugging Face configuration, the path of a `config.json`, or the name of a preset
    - `machine`: a machine or its name
    - `wafers`: number of wafers, which hold one replica of the model or several; None for the fewest that hold it
    - `users`: users that are served at the same time
    - `prompt_tokens`, `generated_tokens`: tokens of a user's prompt, and of the answer
    - `weight_bits`: bits of a weight, 16 or 8; activations and caches have 16 bits
    - `host`: the links between wafers
    - `name`: name of the model in reports; by default that of the preset, the file or the configuration

    The plan is the one with the most tokens/s of a user. It is searched over the cuts of a wafer into regions, the
    number of replicas, and the number of users that pass a pipeline together. Speculative decoding is not modelled.
    Raises LazyError if an argument is invalid or the model does not fit, with the missing bytes and what would fit.

    >>> import wse_sim
    >>> wse_sim.serve("llama-3-8b", "wse3", users=8).max_users > 8
    True
    """
    own_name, decoder = find_decoder(model)
    name = name or own_name
    chosen = Machine.by_name(machine) if isinstance(machine, str) else machine
    mesh, wafers, request = _check_request(
        decoder, chosen, wafers, users, prompt_tokens, generated_tokens, weight_bits, host
    )
    placement = _find_placement(name, mesh, wafers, request, host)
    return _make_plan(name, mesh, wafers, request, placement, host)


def decoding_rate(
    model: str, machine: Machine, wafers: int | None, weight_bits: int, users: int = 1, host: Host = APPLIANCE
) -> float:
    """Return the tokens/s of a user in the plan that `serve` returns, in a fraction of its time.

    `model` is a preset. Prompt and answer have the default lengths. Raises LazyError as `serve` does.
    """
    name, decoder = find_decoder(model)
    mesh, wafers, request = _check_request(
        decoder, machine, wafers, users, DEFAULT_TOKENS, DEFAULT_TOKENS, weight_bits, host
    )
    return 1 / _find_placement(name, mesh, wafers, request, host).token_seconds(request)


def _find_placement(name: str, mesh: LayerMesh, wafers: int, request: _Request, host: Host) -> _Placement:
    """Return the fastest placement. Raise LazyError if the users do not fit."""
    placement = _fastest_placement(mesh, wafers, request, host)
    if placement is None:
        raise _refusal(name, mesh, wafers, request, host)
    return placement


def _check_request(
    decoder: Decoder,
    machine: Machine,
    wafers: int | None,
    users: int,
    prompt: int,
    generated: int,
    weight_bits: int,
    host: Host,
) -> tuple[LayerMesh, int, _Request]:
    """Return the whole wafer as a mesh, the number of wafers and the request, after a check of the arguments.

    The arguments are those of `serve`. Without `wafers`, their number is the fewest that hold the request, or
    `MAX_WAFERS` if they do not.
    """
    counts = {"users": users, "prompt_tokens": prompt, "generated_tokens": generated}
    counts |= {} if wafers is None else {"wafers": wafers}
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise LazyError(f"{name} is {value!r}", hint="Give a whole number of at least 1.")
    if wafers is not None and wafers > MAX_WAFERS:
        raise LazyError(f"wafers is {wafers:,}", hint=f"Give at most {MAX_WAFERS:,} wafers.")
    if weight_bits not in WEIGHT_BITS:
        raise LazyError(f"weights of {weight_bits!r} bits are not modelled", hint="Use weight_bits of 16 or 8.")
    width, height = machine.usable_width, machine.usable_height
    # A longer side has no plan in reasonable time, and a wafer with one much longer side has no nearly square region.
    if max(width, height) > MAX_SIDE_PES or not any(True for _ in region_grids(machine)):
        hint = f"Use a nearly square wafer with sides of at most {MAX_SIDE_PES:,} PEs."
        raise LazyError(f"serving on {width:,} x {height:,} PEs of {machine.name} is not modelled", hint=hint)
    mesh, request = LayerMesh(decoder, width, height, machine, weight_bits), _Request(users, prompt, generated)
    return mesh, wafers or _fewest_wafers(mesh, 1, request, host) or MAX_WAFERS, request


def _on_region(mesh: LayerMesh, grid: RegionGrid) -> LayerMesh:
    return replace(mesh, width=grid.width, height=grid.height)


@lru_cache(maxsize=256)
def _candidates(mesh: LayerMesh, wafers: int, context: int, host: Host) -> tuple[tuple[Replica, int], ...]:
    """Return the placements of one replica with the number of replicas, for every number of replicas on `wafers`.

    Placements that do not hold a single user are left out.
    """
    sizes = sorted({wafers // copies for copies in range(1, wafers + 1)})
    found = [
        (replica, wafers // size)
        for size in sizes
        for grid in region_grids(mesh.machine)
        for replica in replicas_on(_on_region(mesh, grid), grid, size, context, host)
        if replica.max_users(context)
    ]
    return tuple(found)


def _fastest_placement(mesh: LayerMesh, wafers: int, request: _Request, host: Host) -> _Placement | None:
    """Return the placement with the shortest time between tokens, or None if the users do not fit.

    Of equally fast placements the one on the fewest wafers is returned.
    """
    singles = [
        _Placement(replica, copies, 1)
        for replica, copies in _candidates(mesh, wafers, request.context, host)
        if replica.fits(_share(request.users, copies), request.context)
    ]
    best, least = None, (inf, 0)
    # No batch passes the stages faster than a single token, so most placements need no further prices.
    for single in sorted(singles, key=lambda p: p.through_seconds(request)):
        share = _share(request.users, single.copies)
        _, slowest = single.replica.decode_seconds(request.mean_context, 1)
        for batch in _batches(share):
            # A stage takes at least as long for a batch as for a single token.
            if ceil_div(share, batch) * slowest > least[0]:
                continue
            placement = replace(single, batch=batch)
            if placement.through_seconds(request) > least[0] or not placement.fits(request):
                break
            rank = placement.token_seconds(request), placement.copies * placement.replica.wafers
            if rank < least:
                best, least = placement, rank
    return best


def _batches(users: int) -> Iterator[int]:
    """Yield numbers of users up to twice `users`: 1, 2, 3, 4, 6, 8, 12, ...

    The list for more users contains the list for fewer, so more users never get a faster plan.
    """
    power = 1
    while power <= 2 * users:
        yield power
        if power > 1:
            yield power * 3 // 2
        power *= 2


def _max_users(mesh: LayerMesh, wafers: int, context: int, host: Host) -> int:
    """Return how many users with `context` tokens fit on `wafers` wafers, at most; 0 if the model does not fit."""
    found = _candidates(mesh, wafers, context, host)
    return max((copies * replica.max_users(context) for replica, copies in found), default=0)


def _make_plan(
    name: str, mesh: LayerMesh, wafers: int, request: _Request, placement: _Placement, host: Host
) -> ServingPlan:
    replica, seconds = placement.replica, placement.token_seconds(request)
    users = _share(request.users, placement.copies)
    fullest = max(replica.stages, key=lambda stage: replica.used_bytes(stage, users, request.context))
    machine, chunk = mesh.machine, placement.fastest_chunk(request)
    first = replica.prefill_seconds(request.prompt, *chunk)
    total = request.users / seconds
    used_wafers = placement.copies * replica.wafers
    watts = POWER_W.get(machine.name)
    return ServingPlan(
        model=name,
        decoder=mesh.model,
        machine=machine.name,
        wafers=wafers,
        users=request.users,
        prompt_tokens=request.prompt,
        generated_tokens=request.generated,
        weight_bits=mesh.weight_bits,
        replicas=placement.copies,
        used_wafers=used_wafers,
        region=(replica.mesh.width, replica.mesh.height),
        regions=len(replica.stages),
        layers_per_region=replica.fullest_layers,
        batch=min(placement.batch, users),
        tokens_per_s_user=1 / seconds,
        tokens_per_s=total,
        first_token_s=first,
        request_tokens_per_s=request.generated / (first + (request.generated - 1) * seconds),
        max_users=_max_users(mesh, wafers, request.context, host),
        weight_bytes=mesh.model.parameters * mesh.weight_bits // 8,
        cache_bytes_per_user=2 * mesh.model.layers * mesh.model.kv_width * request.context * 2,
        usable_bytes_per_pe=machine.usable_bytes_per_pe,
        weight_bytes_per_pe=replica.weight_bytes(fullest),
        cache_bytes_per_pe=users * fullest.layers * replica.mesh.cache_bytes(request.context),
        gains=_resource_gains(mesh, wafers, request, placement, chunk, host),
        joules_per_token=used_wafers * watts[1] / total if watts else None,
    )


_RESOURCES: Mapping[str, tuple[Mapping[str, float], Mapping[str, float]]] = {
    "latency between cores": ({"hop_cycles": 0.5, "ramp_cycles": 0.5, "turn_cycles": 0.5}, {}),
    "start of collectives": ({"launch_cycles": 0.5}, {}),
    "start of vector operations": ({"dsd_setup_cycles": 0.5, "descriptor_load_cycles": 0.5, "loop_cycles": 0.5}, {}),
    "arithmetic of cores": (
        {f"{rate}_f16_per_cycle": 2 for rate in ("fma", "product", "add", "move")} | {"special_f16_cycles": 0.5},
        {},
    ),
    "bandwidth of links": ({"wavelet_cycles": 0.5}, {}),
    "links between wafers": ({"edge_bits_per_s": 2}, {"tree_node_s": 0.5}),
}
"""Resource -> factors on the fields of the machine and of the host that make it twice as fast."""


def _resource_gains(
    mesh: LayerMesh, wafers: int, request: _Request, placement: _Placement, chunk: tuple[int, bool], host: Host
) -> tuple[ResourceGain, ...]:
    """Return for each resource how much faster tokens are if it is twice as fast, in the same placement and `chunk`.

    With twice the number of wafers the model is placed again.
    """
    replica = placement.replica
    before = placement.token_seconds(request), replica.prefill_seconds(request.prompt, *chunk)

    def gain(name: str, faster: _Placement, chunk: tuple[int, bool]) -> ResourceGain:
        first = faster.replica.prefill_seconds(request.prompt, *chunk)
        return ResourceGain(name, before[0] / faster.token_seconds(request), before[1] / first)

    gains = []
    for name, (machine_factors, host_factors) in _RESOURCES.items():
        machine, faster_host = _scale(mesh.machine, machine_factors), _scale(host, host_factors)
        faster = replace(replica, mesh=replace(replica.mesh, machine=machine), host=faster_host)
        gains.append(gain(name, replace(placement, replica=faster), chunk))
    doubled = _fastest_placement(mesh, 2 * wafers, request, host) or placement
    gains.append(gain("wafers", doubled, doubled.fastest_chunk(request)))
    return tuple(sorted(gains, key=lambda g: -g.decoding))


def _scale(record: Any, factors: Mapping[str, float]) -> Any:
    """Return a copy of a machine or a host with the fields in `factors` multiplied."""
    return replace(record, **{name: getattr(record, name) * factor for name, factor in factors.items()})


def _refusal(name: str, mesh: LayerMesh, wafers: int, request: _Request, host: Host) -> LazyError:
    """Return the error for a model that does not fit, with the missing bytes and the changes that make it fit."""
    missing = min(
        replica.missing_bytes(request.users, request.context)
        for grid in region_grids(mesh.machine)
        for replica in replicas_on(_on_region(mesh, grid), grid, wafers, request.context, host)
    )
    users = "1 user" if request.users == 1 else f"{request.users:,} users"
    what = (
        f"{name} with weights of {mesh.weight_bits} bits and {users} of {request.context:,} tokens does not fit on "
        f"{wafers:,} {mesh.machine.name}: {missing / 1e9:,.3g} GB are missing"
    )
    changes = [text for text in _fitting_changes(mesh, wafers, request, host) if text]
    return LazyError(what, hint=f"Use {', or '.join(changes)}." if changes else "Use a smaller model.")


def _fitting_changes(mesh: LayerMesh, wafers: int, request: _Request, host: Host) -> Iterator[str]:
    """Yield the changes of one argument that make the model fit, each as the end of a sentence."""

    def room(mesh: LayerMesh, wafers: int, context: int) -> int:
        return _max_users(mesh, wafers, context, host)

    more = _fewest_wafers(mesh, wafers + 1, request, host)
    if more:
        yield f"{more:,} wafers"
    if mesh.weight_bits > 8 and room(replace(mesh, weight_bits=8), wafers, request.context) >= request.users:
        yield "weights of 8 bits"
    users = room(mesh, wafers, request.context)
    if users:
        yield f"at most {users:,} users"
    # The number of tokens that do not fit grows with the context.
    too_long = _first_true(lambda n: room(mesh, wafers, n) < request.users, 2, request.context)
    if too_long > 2:
        yield f"at most {too_long - 1:,} tokens of prompt and answer"


def _fewest_wafers(mesh: LayerMesh, least: int, request: _Request, host: Host) -> int:
    """Return the fewest wafers, at least `least`, that hold the model with all users; 0 if `MAX_WAFERS` do not."""

    def fits_on(wafers: int) -> bool:
        # One replica on all wafers has the most room.
        return any(
            replica.max_users(request.context) >= request.users
            for grid in region_grids(mesh.machine)
            for replica in replicas_on(_on_region(mesh, grid), grid, wafers, request.context, host)
        )

    return _first_true(fits_on, least, MAX_WAFERS)


def _first_true(holds: Callable[[int], bool], least: int, greatest: int) -> int:
    """Return the least number from `least` to `greatest` for which `holds`, or 0; it holds for all greater numbers."""
    low, step = least, 1
    while low <= greatest and not holds(min(low + step - 1, greatest)):
        low, step = low + step, 2 * step
    if low > greatest:
        return 0
    high = min(low + step - 1, greatest)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
