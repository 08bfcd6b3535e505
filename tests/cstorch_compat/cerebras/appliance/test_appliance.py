"""What `cerebras.appliance` gives to scripts; the answers are recorded from the vendor's release 2.10."""

import logging
import os
import pathlib

import pytest

from cstorch_compat.cerebras.appliance import cluster_config, environment, log, storage
from cstorch_compat.cerebras.appliance.utils import files, units
from cstorch_compat.run.compiler_settings import DebugArgs
from lazytensor.errors import OptionMissing

SIZES = [
    (0, "0.0B"),
    (1023, "1023.0B"),
    (1024, "1.0KiB"),
    (1536, "1.5KiB"),
    (10**9, "953.7MiB"),
    (2**62, "4096.0PiB"),
]
TIMES = [(90, "s", "1.5m"), (0, "s", "0.0ns"), (1500, "ms", "1.5s"), (90000, "s", "1.0d"), (0.5, "ns", "0.5ns")]
LEVELS = [("info", 20), ("ERROR", 40), ("trace", 5), ("VERBOSE", 15), (10, "DEBUG"), (15, "VERBOSE"), (99, "Level 99")]


@pytest.mark.parametrize(("number", "words"), SIZES)
def test_bytes_are_told_in_the_largest_unit_that_fits(number, words):
    assert units.bytes_to_human(number) == words


@pytest.mark.parametrize(("number", "unit", "words"), TIMES)
def test_times_are_told_in_the_largest_unit_that_fits(number, unit, words):
    assert units.time_to_human(number, unit) == words


def test_units_are_converted_and_rounded():
    assert units.bytes_to_human(10**9, log_base=10) == "1.0GB"
    assert units.convert_byte_unit(1536, "KiB") == 2
    assert units.convert_byte_unit(1536, "KB", precision=2) == 1.54
    assert units.convert_byte_unit(1, "KB", src_unit="MB") == 1000
    assert units.convert_time_unit(90, "s", "m") == 1.5 and units.convert_time_unit(90, "s", "m", precision=0) == 2
    with pytest.raises(ValueError, match="Invalid `tgt_unit`: xx"):
        units.convert_byte_unit(1, "xx")
    with pytest.raises(ValueError, match="Invalid `log_base`: 3"):
        units.bytes_to_human(1, log_base=3)


@pytest.mark.parametrize(("level", "other"), LEVELS)
def test_levels_are_named_both_ways(level, other):
    assert log.get_level_name(level) == other


def test_a_class_gets_a_logger_with_the_levels_of_the_package(caplog):
    @log.named_class_logger("Trainer")
    class Trainer(log.ClassLogger):
        pass

    assert Trainer.logger.name == "cerebras.Trainer"
    with caplog.at_level(log.TRACE, logger="cerebras"):
        Trainer().logger.verbose("%d steps", 3)
        Trainer.logger.trace("deep")
    assert [(r.levelname, r.getMessage(), r.filename) for r in caplog.records] == [
        ("VERBOSE", "3 steps", "test_appliance.py"),
        ("TRACE", "deep", "test_appliance.py"),
    ]
    assert log.named_class_logger()(Trainer).logger.name.endswith("Trainer")


def test_levels_of_the_cluster_are_collected_by_name():
    part = log.wsc_logger.getChild("worker.wrk")
    part.setLevel(logging.DEBUG)
    try:
        assert log.WscLogSetting(10, "worker.wrk") in log.collect_wsc_log_settings()
    finally:
        part.setLevel(logging.NOTSET)


def test_the_workers_environment_is_the_clients(monkeypatch):
    monkeypatch.setenv("OF_THE_CLIENT", "1")
    variables = environment._ApplianceEnviron()
    variables["OF_THE_RUN"] = "2"
    assert os.environ["OF_THE_RUN"] == "2" and variables["OF_THE_CLIENT"] == "1"
    assert dict(variables) == {"OF_THE_RUN": "2"} and repr(variables) == "ApplianceEnviron({'OF_THE_RUN': '2'})"
    del variables["OF_THE_RUN"]
    assert "OF_THE_RUN" not in os.environ
    with pytest.raises(TypeError, match="str expected, not int"):
        variables["OF_THE_RUN"] = 3


def test_links_are_replaced_and_sizes_are_told(tmp_path):
    (tmp_path / "a").write_bytes(b"123")
    link = tmp_path / "latest"
    for target in ("nowhere", "a"):
        files.create_symlink(link, target)
    assert link.read_bytes() == b"123"
    assert files.get_path_size(tmp_path / "a") == 3 and files.get_path_size(tmp_path, recurse=True) == 6
    assert files.get_path_size(tmp_path / "b", raise_if_not_found=False) is None
    with pytest.raises(FileNotFoundError, match="does not exist"):
        files.get_path_size(tmp_path / "b")
    with pytest.raises(FileExistsError):
        files.create_symlink(tmp_path / "a", "b")


def test_classes_below_a_class_come_in_order():
    top = type("top", (), {})
    first, second = type("first", (top,), {}), type("second", (top,), {})
    inner = type("inner", (first,), {})
    assert list(files.retrieve_all_subclasses(top)) == [first, inner, second]
    assert list(files.retrieve_all_subclasses(top, lambda kind: kind is not first)) == [inner, second]


def test_a_path_says_which_storage_it_names(tmp_path, script):
    path = tmp_path / "c.mdl"
    script(f"import torch, cerebras.pytorch as cstorch\ncstorch.save({{'a': torch.ones(2)}}, {str(path)!r})")
    assert storage.StorageReader.get_type(path) is storage.H5Reader and storage.StorageWriter.is_valid_path(path)
    reader = storage.StorageReader.get(path)
    assert reader.exists() and reader.global_metadata["__cstorch_version__"] == "2.10.0"
    assert reader.stats == storage.StorageReader.Stats(path, reader.fstat.st_mtime)
    assert storage.StorageDeleter.get(path).delete() and not path.exists()
    assert storage.StorageDeleter.get(path).delete()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        storage.StorageReader.get(path)
    with pytest.raises(ValueError, match="Could not find H5Reader"):
        storage.H5Reader.get_type(path)


def test_a_bucket_is_known_and_refused():
    assert storage.S3Writer.is_valid_path("s3://bucket/key") and storage.StorageReader.is_valid_path("s3://bucket/key")
    assert not storage.H5Reader.is_valid_path("s3://bucket/key")
    for ask in (storage.StorageReader.path_exists, storage.StorageWriter.get):
        with pytest.raises(OptionMissing, match="is in an S3 bucket"):
            ask("s3://bucket/key")


def test_settings_of_the_compiler_are_kept_by_their_paths(tmp_path):
    settings = cluster_config.get_debug_args(None)
    cluster_config.update_debug_args_from_keys(settings, {"debug_usr.tasks.count": 3})
    cluster_config.update_debug_args_with_job_labels(settings, ["user=me"])
    assert settings.debug_usr.tasks.count == 3 and settings.debug_mgr.labels.user == "me"
    assert cluster_config.get_debug_args(settings) is settings and isinstance(settings, DebugArgs)
    cluster_config.write_debug_args(settings, tmp_path / "args")
    assert "count=3" in pathlib.Path(tmp_path / "args").read_text()
