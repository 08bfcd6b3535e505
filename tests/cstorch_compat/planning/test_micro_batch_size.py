"""The flag micro_batch_size decides the micro-batches of `lazywafer plan` and of the report of a run."""

import json
import math

import pytest

from tests.conftest import PREAMBLE, lazywafer, training

# 16 samples a step; the option `value` is what the flag is set to, and `systems` the number of systems.
SCRIPT = (
    PREAMBLE
    + """
import ast, sys
value, systems, *options = map(ast.literal_eval, sys.argv[1:])
cstorch.backends.csx.performance.micro_batch_size = value
cluster = cstorch.distributed.ClusterConfig(num_csx=systems)
backend = cstorch.backend("CSX", "logs", cluster_config=cluster, **dict(options))
"""
    + training(steps=1).replace("backend = cstorch.backend('CSX')", "").replace("loader()", "loader(rows=16)")
)


@pytest.fixture
def command(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(*words, value="auto", systems=1, **options):
        arguments = [repr(value), repr(systems), *(repr(pair) for pair in options.items())]
        done = lazywafer(*words, "--machine", "tiny", "script.py", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    return run


def of_run(command, tmp_path, **given):
    done = command("run", "--mode", "streaming", "--report", "r.json", **given)
    (report,) = json.loads((tmp_path / "r.json").read_text())
    return report["streaming"], done


def of_plan(command, tmp_path, **given):
    done = command("plan", "--mode", "streaming", "--json", **given)
    (row,) = json.loads(done.stdout)["rows"]
    return row, done


@pytest.fixture(params=[of_run, of_plan])
def reported(request, command, tmp_path):
    return lambda **given: request.param(command, tmp_path, **given)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "systems", "expected"),
    [
        ("auto", 1, (1, 16)),
        (None, 1, (1, 16)),
        (16, 1, (1, 16)),
        (4, 1, (4, 4)),
        (1, 1, (16, 1)),
        (5, 1, (4, 4)),
        (100, 1, (1, 16)),
        ({"explore": {"min": 4, "max": 4}}, 1, (4, 4)),
    ],
)
def test_flag_decides_the_number_and_the_size_of_micro_batches(reported, value, systems, expected):
    row = reported(value=value, systems=systems)
    assert (row["micro_batches"], row["micro_batch_size"]) == expected


@pytest.mark.slow
@pytest.mark.parametrize("value", ["explore", {"explore": {"min": 2}}, {"explore": {"min": 2, "max": 8}}])
def test_a_search_reports_the_sizes_between_its_bounds(reported, value):
    bounds = value["explore"] if isinstance(value, dict) else {}
    explored = reported(value=value)["explored"]
    # All even divisions of 16 samples that have a size in between.
    sizes = {-(-16 // count) for count in range(1, 17)}
    wanted = {size for size in sizes if bounds.get("min", 1) <= size <= bounds.get("max", 16)}
    assert {one["samples"] for one in explored} == wanted
    assert all(one["fits"] and one["samples_per_s"] > 0 for one in explored)


def test_text_of_a_plan_tells_of_the_micro_batches(command):
    assert "4 micro-batches of 4 samples" in command("plan", "--mode", "streaming", value=4).stdout
    done = command("plan", "--mode", "streaming", value={"explore": {"min": 8}})
    assert "explored micro-batch sizes: " in done.stdout and "8: " in done.stdout


@pytest.mark.process
def test_a_plan_asks_for_the_systems_of_the_script_unless_the_command_names_others(command):
    rows = []
    for words in ((), ("--systems", "3")):
        done = command("plan", "--mode", "streaming", "--json", *words, value=2, systems=2)
        rows += json.loads(done.stdout)["rows"]
    assert [row["systems"] for row in rows] == [2, 3]
    for row in rows:
        assert row["micro_batches"] == math.ceil(math.ceil(16 / row["used_systems"]) / 2)


def test_another_size_in_the_next_execution_is_another_plan(script, tmp_path):
    done = script(
        training(steps=1)
        + """
for size in (2, "auto"):
    cstorch.backends.csx.performance.micro_batch_size = size
    for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=1):
        log(step(batch))
print([report.streaming.micro_batches for report in backend.reports])
"""
    )
    assert "[1, 2, 1]" in done.stdout, done.stderr


def test_a_search_in_a_run_that_executes_steps_is_told_that_the_system_refuses_it(command, tmp_path):
    words = "only with compile_only=True"
    _, done = of_run(command, tmp_path, value="explore")
    assert done.stderr.count(words) == 1
    for given in ({"value": "explore", "compile_only": True}, {"value": 4}):
        _, done = of_run(command, tmp_path, **given)
        assert words not in done.stderr
    assert words not in of_plan(command, tmp_path, value="explore")[1].stderr


@pytest.mark.parametrize(
    ("api", "call"),
    [("2.3", "micro_batch_size='explore'"), ("2.2", "micro_batch_size={'explore': {'min': 2}}")],
)
def test_executors_of_older_releases_refuse_a_search_in_a_run(tmp_path, api, call):
    text = f"""
import torch
import cerebras.pytorch as cstorch
backend = cstorch.backend("CSX")
loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(2)])
try:
    cstorch.utils.data.DataExecutor(loader, num_steps=1, {call})
except ValueError as e:
    print(e)
cstorch.utils.data.DataExecutor(loader, num_steps=1, micro_batch_size=4)
print(cstorch.backends.csx.performance.micro_batch_size)
"""
    if api == "2.2":
        text = text.replace("print(cstorch.backends", "print(4) #")
    (tmp_path / "script.py").write_text(text)
    done = lazywafer("run", "--api", api, "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "only supported in compile_only mode" in done.stdout and done.stdout.endswith("4\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("use_cs_grad_accum=True, micro_batch_size=2", 2),
        ("use_cs_grad_accum=True", "auto"),
        ("use_cs_grad_accum=False, micro_batch_size=2", None),
        ("", "auto"),
    ],
)
def test_backends_of_release_2_0_cut_batches_with_gradient_accumulation_alone(tmp_path, options, expected):
    text = f"""
import cerebras_pytorch as cstorch
backend = cstorch.backend("CSX", {options})
print(repr(backend.flags.performance.micro_batch_size))
"""
    (tmp_path / "script.py").write_text(text)
    done = lazywafer("run", "--api", "2.0", "script.py", cwd=tmp_path)
    assert done.stdout.startswith(repr(expected)), done.stderr
