"""What a type rule said is remembered by its question."""

import numpy as np
import pytest

from lazytensor import dtype as dtypes
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type
from lazytensor.ops import op


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """The questions that rules are asked from here on, with a memory of their own."""
    questions = []
    known = op._inferred

    def noted(record, question, types, attrs):
        questions.append(question)
        return known(record, question, types, attrs)

    monkeypatch.setattr(op, "_types", {})
    monkeypatch.setattr(op, "_inferred", noted)
    return questions


def vector(size):
    return leaf(np.zeros(size, np.float32), Type((size,), dtypes.float32))


def test_equal_questions_are_asked_once_and_others_again(asked):
    for size in (3, 3, 4, 4):
        assert op.call("add", vector(size), vector(size)).type == Type((size,), dtypes.float32)
    for shape in ((2, 3), (2, 3), (3, 2)):
        assert op.call("reshape", vector(6), shape=shape).type.shape == shape
    assert [q[0] for q in asked] == ["add", "add", "reshape", "reshape"]


def test_what_does_not_fit_is_refused_each_time(asked):
    for _ in range(2):
        with pytest.raises(ShapeError, match="add"):
            op.call("add", vector(3), vector(4))
    assert len(asked) == 2


def test_the_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(op, "TYPES_KEPT", 4)
    for size in range(1, 12):
        op.call("add", vector(size), vector(size))
    assert len(op._types) <= 4


def test_attributes_that_are_more_than_numbers_and_names_are_not_kept(monkeypatch, asked):
    monkeypatch.setattr(op, "_PLAIN", (int,))
    for _ in range(2):
        op.call("reshape", vector(6), shape=(2, 3))
    assert len(asked) == 2 and not op._types
