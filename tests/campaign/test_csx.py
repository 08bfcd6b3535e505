"""Drawn modules get the recorded answers of the vendor's front end: accepted or refused, and the CIRH text.

`python -m tests.campaign csx N SEED --real PYTHON` compares many more with the front end itself.
"""

import gzip
import json
import sys

import pytest

from tests.campaign import csx
from tests.golden.record_csx_answers import GOLDEN, differs

RECORDS = json.loads(gzip.decompress(GOLDEN.read_bytes()))
PART = 10


@pytest.fixture(scope="module")
def front_end():
    server = csx.Server(sys.executable, "ours")
    yield server
    server.close()


@pytest.mark.process
@pytest.mark.parametrize("first", range(0, len(RECORDS), PART))
def test_drawn_modules_get_the_recorded_answers(front_end, first):
    part = RECORDS[first : first + PART]
    # A record says if ours differed when it was made. A mend fails here until the answers are recorded again.
    found = [differs(record, front_end.ask(record["source"])) for record in part]
    assert found == [record["differs"] for record in part], [
        record["source"] for record, kind in zip(part, found, strict=True) if kind != record["differs"]
    ]
