"""The plan of serving a model, as text, as HTML and as plain data for JSON. Field names contain their units."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from lazytensor.display.table import Column, Table
from wse_sim.error_bands import ErrorBand, serving_band
from wse_sim.number_format import format_duration, format_estimate, format_percent
from wse_sim.serving.decoder import Decoder

MIN_SHOWN_GAIN = 1.01
"""Resources that would make tokens less than 1 % faster are not printed."""


@dataclass(frozen=True)
class ResourceGain:
    """How much faster tokens are with twice as much of a resource.

    - `resource`: its name
    - `decoding`: factor on the tokens/s of a user
    - `first_token`: factor by which the time to the first token gets shorter
    """

    resource: str
    decoding: float
    first_token: float


@dataclass(frozen=True)
class ServingPlan:
    """A plan of serving a decoder-only model. See `wse_sim.serve`.

    - `model`, `decoder`: its name and its extents
    - `machine`, `wafers`, `users`, `prompt_tokens`, `generated_tokens`, `weight_bits`: as requested
    - `replicas`: copies of the model, which share the users
    - `used_wafers`: wafers that hold a part of a replica
    - `region`, `regions`: width and height of a region in PEs, and regions of one replica
    - `layers_per_region`: layers of the fullest region
    - `batch`: users that pass a pipeline together
    - `tokens_per_s_user`, `tokens_per_s`: generated tokens in a second, of one user and of all users
    - `first_token_s`: seconds from a prompt to its first token, on wafers that do nothing else
    - `request_tokens_per_s`: generated tokens of one request over all of its seconds
    - `max_users`: users of this prompt and answer until the memory of all wafers is full
    - `weight_bytes`, `cache_bytes_per_user`: bytes of the weights of one replica, and of a user's keys and values
    - `usable_bytes_per_pe`, `weight_bytes_per_pe`, `cache_bytes_per_pe`: memory of the fullest PE, and its parts
    - `gains`: resources, the one that limits decoding first
    - `joules_per_token`: None if no power of the machine is published

    >>> import wse_sim
    >>> wse_sim.serve("gpt2", "wse2").limit
    'latency between cores'
    """

    model: str
    decoder: Decoder
    machine: str
    wafers: int
    users: int
    prompt_tokens: int
    generated_tokens: int
    weight_bits: int
    replicas: int
    used_wafers: int
    region: tuple[int, int]
    regions: int
    layers_per_region: int
    batch: int
    tokens_per_s_user: float
    tokens_per_s: float
    first_token_s: float
    request_tokens_per_s: float
    max_users: int
    weight_bytes: int
    cache_bytes_per_user: int
    usable_bytes_per_pe: int
    weight_bytes_per_pe: int
    cache_bytes_per_pe: int
    gains: tuple[ResourceGain, ...]
    joules_per_token: float | None

    @property
    def verdict(self) -> str:
        """The rate of a user and what limits it, in one sentence."""
        rate = format_estimate(self.tokens_per_s_user)
        return f"A user gets about {rate} tokens/s. Decoding is limited by the {self.limit}."

    @property
    def shown_gains(self) -> tuple[ResourceGain, ...]:
        """The gains that are worth showing: resources whose doubling has an effect of at least 1 %."""
        return tuple(g for g in self.gains if max(g.decoding, g.first_token) >= MIN_SHOWN_GAIN)

    @property
    def limit(self) -> str:
        """Name of the resource whose doubling makes decoding fastest."""
        return self.gains[0].resource

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for JSON, with the error bands of its figures."""
        bands = {kind: asdict(band) if band else None for kind, band in self._bands().items()}
        return {**asdict(self), "limit": self.limit, "error_bands": bands}

    def text(self) -> str:
        """Return the plan as text: figures, the limiting resources, and the error bands."""
        parts = (self.title, self.figures().text(), self._limits().text(), self.notes())
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        """Return the plan as HTML."""
        notes = "".join(f"<p>{escape(line)}</p>" for line in self.notes().splitlines())
        return f"<p>{escape(self.title)}</p>{self.figures().html()}{self._limits().html()}{notes}"

    def _bands(self) -> dict[str, ErrorBand | None]:
        return {
            kind: serving_band(kind, self.machine, self.decoder.experts > 1)
            for kind in ("decoding", "prefill", "requests")
        }

    @property
    def title(self) -> str:
        """What is planned, in one line."""
        return (
            f"{self.model} on {self.wafers:,} x {self.machine}, {_count(self.users, 'user')}, "
            f"{self.prompt_tokens:,} + {self.generated_tokens:,} tokens, weights of {self.weight_bits} bits"
        )

    def figures(self) -> Table:
        """Return the table of figures with their values as text. Estimates have their range in parentheses."""
        bands = self._bands()
        decoding, prefill, requests = (band.median if band else 1.0 for band in bands.values())
        fullest = f"of {self.usable_bytes_per_pe:,}"
        rows = [
            ("tokens/s of a user", format_estimate(self.tokens_per_s_user, decoding)),
            ("tokens/s of all users", format_estimate(self.tokens_per_s, decoding)),
            ("time to first token (s)", format_estimate(self.first_token_s, prefill)),
            ("tokens/s of a whole request", format_estimate(self.request_tokens_per_s, requests)),
            ("users until memory is full", f"{self.max_users:,}"),
            ("weights of one replica", f"{self.weight_bytes / 1e9:,.4g} GB"),
            ("keys and values of a user", f"{self.cache_bytes_per_user / 1e9:,.3g} GB"),
            ("weights on the fullest PE", f"{self.weight_bytes_per_pe:,} bytes {fullest}"),
            ("keys and values on this PE", f"{self.cache_bytes_per_pe:,} bytes {fullest}"),
            *self._placement(),
        ]
        if self.joules_per_token is not None:
            rows.append(("energy of a token (J)", format_estimate(self.joules_per_token)))
        return Table((Column("figure", is_words=True), Column("planned", is_words=True)), rows)

    def _placement(self) -> tuple[tuple[str, str], ...]:
        width, height = self.region
        return (
            ("replicas of the model", f"{self.replicas:,} on {self.used_wafers:,} of {self.wafers:,} wafers"),
            ("regions of a replica", f"{self.regions:,} of {width:,} x {height:,} PEs"),
            ("layers of a region", f"up to {self.layers_per_region:,}"),
            ("users at a time in a region", f"{self.batch:,}"),
        )

    def _limits(self) -> Table:
        """Return the table of gains. Resources without an effect are left out."""
        columns = (
            Column("twice as much", is_words=True),
            Column("tokens/s of a user", _gain_text),
            Column("first token sooner", _gain_text),
        )
        return Table(columns, [(g.resource, g.decoding, g.first_token) for g in self.shown_gains])

    def notes(self) -> str:
        """Return the limit, the error bands and what is not modelled, one a line."""
        lines = [self.verdict]
        lines += [
            band.text("rate").replace("validate", "validate --serving") for band in self._bands().values() if band
        ]
        if self.joules_per_token is not None:
            lines.append("Energy: the mean power of a CS-2 in a stencil program, 22.8 kW (Jacquelin et al., SC'22).")
        lines.append("Tokens/s count decoding only. Speculative decoding is not modelled.")
        return "\n".join(lines)


def serving_table(plans: Sequence[ServingPlan]) -> Table:
    """Return a table with one row for each plan."""
    columns = (
        Column("machine", is_words=True),
        Column("wafers", "{:,}".format),
        Column("users", "{:,}".format),
        Column("tokens/s/user", format_estimate),
        Column("tokens/s", format_estimate),
        Column("first token", format_duration),
        Column("max users", "{:,}".format),
        Column("memory", format_percent),
        Column("limited by", is_words=True),
    )
    rows = [
        (
            plan.machine,
            plan.wafers,
            plan.users,
            plan.tokens_per_s_user,
            plan.tokens_per_s,
            plan.first_token_s,
            plan.max_users,
            (plan.weight_bytes_per_pe + plan.cache_bytes_per_pe) / plan.usable_bytes_per_pe,
            plan.limit,
        )
        for plan in plans
    ]
    return Table(columns, rows)


def _gain_text(gain: float) -> str:
    return f"x {gain:.2f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
