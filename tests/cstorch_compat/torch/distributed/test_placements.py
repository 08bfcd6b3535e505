"""Placements of tensors on devices, which libraries make when they are imported."""

from cstorch_compat.torch.distributed.placements import Partial, Replicate, Shard


def test_placements_are_equal_by_value_and_print_as_in_pytorch():
    shown = [(repr(p), str(p)) for p in (Shard(1), Replicate(), Partial())]
    assert shown == [("Shard(dim=1)", "S(1)"), ("Replicate()", "R"), ("Partial(sum)", "P(sum)")]
    assert len({Shard(0), Shard(0), Shard(1), Replicate(), Replicate(), Partial(), Partial("avg")}) == 5
    assert Shard(0).is_shard() and Shard(0).is_shard(0) and not Shard(0).is_shard(1) and not Replicate().is_shard()
    assert Replicate().is_replicate() and Partial("avg").is_partial("avg") and not Partial().is_partial("avg")
