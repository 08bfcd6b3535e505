"""A traceback begins at the user's frames; of an error of ours it shows nothing else."""

import logging

from cstorch_compat.run import user_traceback
from lazytensor import config
from lazytensor.errors import ShapeError
from wse_sim import machine_code


def test_an_error_of_ours_shows_the_users_frames_alone(script):
    done = script("def scaled(x):\n    return x @ torch.ones(7, 7)\nscaled(torch.ones(2, 3))\n")
    files = [line.split('"')[1] for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert done.returncode == 1 and len(files) == 2
    assert all(f.endswith("script.py") for f in files)


def test_an_error_of_the_script_inside_a_module_keeps_the_way_to_it(script):
    done = script("class Net(nn.Module):\n    def forward(self, x):\n        return {}[x]\nNet()(3)\n")
    files = [line.split('"')[1] for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert files[0].endswith("script.py") and files[-1].endswith("script.py")
    assert done.stderr.splitlines()[-1] == "KeyError: 3"


def test_causes_are_shortened_too(script):
    done = script(
        "try:\n    torch.ones(2) @ torch.ones(3)\nexcept RuntimeError as e:\n    raise ValueError('mine') from e"
    )
    files = [line.split('"')[1] for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert "direct cause" in done.stderr and all(f.endswith("script.py") for f in files)


def files_of(done):
    return [line.split('"')[1] for line in done.stderr.splitlines() if line.startswith("  File ")]


def test_an_error_from_inside_the_house_says_that_its_frames_are_left_out(script):
    done = script("from lazytensor.core import pytree\npytree.tree_map(None, [1])\n")
    assert done.returncode == 1 and len(files_of(done)) == 1 and files_of(done)[0].endswith("script.py")
    assert done.stderr.endswith(user_traceback.HIDDEN_FRAMES_NOTE)


def test_a_call_that_makes_no_sense_is_told_at_the_users_line(script):
    done = script("torch.zeros(2).reshape('no', object())\n")
    assert done.returncode == 1 and len(files_of(done)) == 1 and files_of(done)[0].endswith("script.py")


def test_a_switch_shows_the_frames_of_the_house(script):
    body = "torch.ones(2, 3) @ torch.ones(7, 7)"
    assert len(files_of(script(body))) == 1
    with config.override(whole_tracebacks=True):
        assert any("lazytensor" in f for f in files_of(script(body)))


def test_numba_tells_nothing_of_its_work_at_the_level_debug():
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    try:
        assert machine_code.SURROUNDINGS
        assert not logging.getLogger("numba.core.byteflow").isEnabledFor(logging.INFO)
        assert logging.getLogger("numba").isEnabledFor(logging.WARNING)
    finally:
        root.setLevel(before)


def test_an_error_without_a_frame_of_the_users_is_told_whole():
    try:
        raise ShapeError("no frame")
    except ShapeError as e:
        text = user_traceback.format_traceback(e)
    assert text.startswith("Traceback") and text.endswith("ShapeError: no frame\n")
