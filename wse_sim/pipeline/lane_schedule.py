"""Lanes that work and hand words to each other: when each of them does what, from what each takes alone.

A lane is a list of steps in its own order. It works, or it gives words to another lane, or takes them. Words pass while
both are at it: a giver waits for its taker, but for what the queues on the way hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BusyStep:
    """A lane works on its own."""

    cycles: int
    label: str = ""


@dataclass(frozen=True)
class SendStep:
    """A lane gives words on a channel; after the last one it is busy for `tail_cycles` with what follows them."""

    channel: str
    words: int
    tail_cycles: int = 0
    label: str = ""


@dataclass(frozen=True)
class ReceiveStep:
    """A lane takes words from a channel; it is busy for `tail_cycles` more until all its cores have them."""

    channel: str
    words: int
    tail_cycles: int = 0
    label: str = ""


LaneStep = BusyStep | SendStep | ReceiveStep


@dataclass(frozen=True)
class ChannelTiming:
    """What lies between two lanes: cycles until the first word is there, and words that the queues hold."""

    lag_cycles: int
    room_words: int


@dataclass(frozen=True)
class LaneSpan:
    """A step in time: the lane was ready at `start_cycles`, and through at `end_cycles`."""

    lane: str
    label: str
    start_cycles: int
    end_cycles: int


def schedule_lanes(
    lanes: Mapping[str, Sequence[LaneStep]], ways: Mapping[str, ChannelTiming], setup_cycles: int = 0
) -> tuple[LaneSpan, ...]:
    """When each step of each lane is done; nothing depends on the order in which lanes are looked at.

    Every give and take costs its lane `setup_cycles`. Raises ValueError where lanes wait for each other in a circle.
    """
    spans: list[LaneSpan] = []
    at, now = dict.fromkeys(lanes, 0), dict.fromkeys(lanes, 0)
    waiting: dict[str, tuple[str, SendStep | ReceiveStep, int]] = {}

    def done(lane: str, step: LaneStep, end: int) -> None:
        spans.append(LaneSpan(lane, step.label, now[lane], end))
        at[lane], now[lane] = at[lane] + 1, end

    # A lane runs until its partner is not there yet; whoever comes second lets both go on.
    ready = list(lanes)
    while ready:
        lane = ready.pop()
        while at[lane] < len(lanes[lane]):
            step = lanes[lane][at[lane]]
            if isinstance(step, BusyStep):
                done(lane, step, now[lane] + step.cycles)
                continue
            # The first of the two waits here until the other comes; both go on from there.
            if step.channel not in waiting:
                waiting[step.channel] = lane, step, now[lane] + setup_cycles
                break
            partner, other, since = waiting.pop(step.channel)
            mine = now[lane] + setup_cycles
            giving, taking = (mine, since) if isinstance(step, SendStep) else (since, mine)
            ends = _transfer_ends(step.words, giving, taking, ways[step.channel])
            for who, what in ((lane, step), (partner, other)):
                done(who, what, ends[isinstance(what, ReceiveStep)] + what.tail_cycles)
            ready.append(partner)
    if waiting:
        raise ValueError(f"lanes wait for each other on {', '.join(sorted(waiting))}")
    return tuple(spans)


def _transfer_ends(words: int, giving: int, taking: int, way: ChannelTiming) -> tuple[int, int]:
    """When the giver and the taker are through, who begin at `giving` and `taking`."""
    # A few words fit on the way: then the giver goes on although nobody takes them yet.
    left = giving + words if words <= way.room_words else max(giving, taking - way.room_words) + words
    return left, max(giving + way.lag_cycles, taking) + words
