"""Turns of a step that streams."""

from tests.wse_sim.small_nets import program_of
from wse_sim.planner.modes.mode_plan import AnalysisCache


def test_segment_goes_back_only_through_layers_whose_last_forward_turn_is_in_it():
    # A weight used at both ends has two turns forward, so that there are more turns than layers.
    turns = AnalysisCache().of(program_of("gpt"), 1).turns
    ends = range(len(turns.forward))
    assert len(ends) > len({turn.number for turn in turns.forward})
    seen = set()
    for end in ends:
        numbers = {turn.number for turn in turns.forward[end:]} - {turn.number for turn in turns.forward[end + 1 :]}
        back = {turn.number for turn in turns.segment_backward_turns(end, end)}
        assert back <= numbers
        seen |= back
    assert seen == {turn.number for turn in turns.backward} & {turn.number for turn in turns.forward}
