"""Schedule lanes that compute and exchange words, given the cycles of each step without waiting.

A lane is an ordered list of steps. A step computes, sends words to another lane, or receives them. Words are
transferred while both lanes are at the transfer. A sender waits for its receiver, except for words that the queues
between them hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BusyStep:
    """A step in which a lane computes for `cycles`."""

    cycles: int
    label: str = ""


@dataclass(frozen=True)
class SendStep:
    """A step that sends `words` on `channel`. The lane is busy for `tail_cycles` after the last word."""

    channel: str
    words: int
    tail_cycles: int = 0
    label: str = ""


@dataclass(frozen=True)
class ReceiveStep:
    """A step that receives `words` from `channel`.

    The lane is busy for `tail_cycles` more, until all its cores have the words.
    """

    channel: str
    words: int
    tail_cycles: int = 0
    label: str = ""


LaneStep = BusyStep | SendStep | ReceiveStep


@dataclass(frozen=True)
class ChannelTiming:
    """The latency of the first word between two lanes in cycles, and the words that the queues between them hold."""

    lag_cycles: int
    room_words: int


@dataclass(frozen=True)
class LaneSpan:
    """A scheduled step. The lane is ready at `start_cycles` and finished at `end_cycles`.

    `wait_cycles` of them are waiting for the other lane of a transfer.
    """

    lane: str
    label: str
    start_cycles: int
    end_cycles: int
    wait_cycles: int = 0


def schedule_lanes(
    lanes: Mapping[str, Sequence[LaneStep]], ways: Mapping[str, ChannelTiming], setup_cycles: int = 0
) -> tuple[LaneSpan, ...]:
    """Return the spans of all steps. The result does not depend on the order of the lanes, but the order of spans does.

    `ways` has the timing of each channel, which connects two lanes. Each send is matched with the receive of its
    channel. Every send and receive costs its lane `setup_cycles` before the transfer. Raise ValueError if lanes wait
    for each other in a cycle, or for a partner that never comes.
    """
    spans: list[LaneSpan] = []
    at, now = dict.fromkeys(lanes, 0), dict.fromkeys(lanes, 0)
    waiting: dict[str, tuple[str, SendStep | ReceiveStep, int]] = {}

    def done(lane: str, step: LaneStep, end: int) -> None:
        busy = step.cycles if isinstance(step, BusyStep) else setup_cycles + step.words + step.tail_cycles
        spans.append(LaneSpan(lane, step.label, now[lane], end, end - now[lane] - busy))
        at[lane], now[lane] = at[lane] + 1, end

    # A lane runs until it has to wait for its partner. The partner that arrives second continues both.
    ready = list(lanes)
    while ready:
        lane = ready.pop()
        while at[lane] < len(lanes[lane]):
            step = lanes[lane][at[lane]]
            if isinstance(step, BusyStep):
                done(lane, step, now[lane] + step.cycles)
                continue
            # The first of two partners waits here for the second.
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
    """Return when the sender and the receiver finish, if they are ready at `giving` and `taking`.

    A word takes a cycle. The sender is ahead by up to the words that the queues hold. The receiver starts `lag_cycles`
    after the sender at the earliest.
    """
    # If all words fit into the queues, the sender need not wait for the receiver.
    left = giving + words if words <= way.room_words else max(giving, taking - way.room_words) + words
    return left, max(giving + way.lag_cycles, taking) + words
