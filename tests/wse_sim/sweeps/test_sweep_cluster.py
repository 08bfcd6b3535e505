"""A sweep on a cluster of real processes, of which one is killed: every point once, and all of them in the file."""

import json
import os
import signal
from collections import Counter

import pytest
from dask import config
from distributed import Client, LocalCluster

from tests.wse_sim.perceptron_steps import recorded
from wse_sim import SweepRecord, sweep
from wse_sim.sweeps.sweep_file import SweepFile

BATCHES, MODES, SYSTEMS = (4, 8, 12, 16), ("streaming",), range(1, 51)


def points_in(path):
    return [SweepRecord.from_dict(json.loads(line)).point.key for line in path.read_text().splitlines()[1:]]


@pytest.mark.slow
def test_cluster_that_loses_a_worker_plans_every_point_once(tmp_path, monkeypatch):
    path, append = tmp_path / "points.jsonl", SweepFile.append
    asked = {"programs": {"mlp": recorded(12, 5, batch=4)}, "machines": ["tiny"], "modes": MODES, "batches": BATCHES}
    asked |= {"systems": SYSTEMS, "path": path}
    config.set({"distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": "1"})
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        workers = client.run(os.getpid)

        def stop_at_60(file, record):
            append(file, record)
            if len(file.records) == 60:
                raise KeyboardInterrupt

        monkeypatch.setattr(SweepFile, "append", stop_at_60)
        with pytest.raises(KeyboardInterrupt):
            sweep(**asked, executor=client.get_executor())
        assert len(points_in(path)) == 60

        def kill_at_120(file, record):
            append(file, record)
            if len(file.records) == 120:
                os.kill(next(iter(workers.values())), signal.SIGKILL)

        monkeypatch.setattr(SweepFile, "append", kill_at_120)
        records = sweep(**asked, executor=client.get_executor())
        after = client.run(os.getpid)
    assert set(after.values()) != set(workers.values())
    assert Counter(points_in(path)) == Counter(r.point.key for r in records)
    assert len(set(points_in(path))) == 200
    assert not any(r.error for r in records)
    own = sweep(**{**asked, "path": None, "batches": [4]})
    assert own == [r for r in records if r.batch_size == 4]
