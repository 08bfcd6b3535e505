"""The heap keeps freed memory, unless the environment has settings of its own."""

import os
import subprocess
import sys

import pytest

TEXT = "from lazytensor.system.heap import keep_freed_memory as f; print(f(), f())"


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are those of glibc")
@pytest.mark.parametrize(("settings", "shown"), [({}, "True True"), ({"MALLOC_TOP_PAD_": "0"}, "False False")])
def test_freed_memory_is_kept_unless_the_environment_has_settings(settings, shown):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")} | settings
    done = subprocess.run([sys.executable, "-c", TEXT], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == shown.split()
