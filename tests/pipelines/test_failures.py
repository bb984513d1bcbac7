"""The one line that is left of what Spark says."""

from __future__ import annotations

import pytest

from kafkalite.pipelines.failures import summary

PYTHON = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise ValueError
kafkalite.spark.errors.KafkaReadError: topic t, partition 0: nothing

	at org.apache.spark.api.python.BasePythonRunner.x(PythonRunner.scala:1)
"""
RAISED = """org.apache.spark.SparkException: Job aborted
	at org.apache.spark.x(Y.scala:1)
Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] a.csv, byte 1: late SQLSTATE: P0001
	at org.apache.spark.z(Y.scala:2)
"""
JAVA = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
	at org.apache.spark.x(Y.scala:1)
Caused by: org.postgresql.util.PSQLException: ERROR: no table
	at org.postgresql.z(Y.java:2)
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (PYTHON, "topic t, partition 0: nothing"),
        (RAISED, "a.csv, byte 1: late"),
        (JAVA, "PSQLException: ERROR: no table"),
        ("[STREAM_FAILED] x: [USER_RAISED_EXCEPTION] late SQLSTATE: P0001 SQLSTATE: XXKST", "late"),
        ("one thing\nand another", "one thing"),
    ],
)
def test_the_cause(said: str, expected: str) -> None:
    assert summary(said) == expected
    assert summary(RuntimeError(said)) == expected


class Throwable:
    """A Java exception as py4j hands it on."""

    def __init__(self, message: str, cause: Throwable | None = None) -> None:
        self._message, self._cause = message, cause

    def getCause(self) -> Throwable | None:  # noqa: N802
        return self._cause

    def getMessage(self) -> str:  # noqa: N802
        return self._message


def test_the_root_of_a_java_exception() -> None:
    error = RuntimeError("An error occurred while calling o5.executeQuery")
    error.java_exception = Throwable("outer", Throwable("ERROR: no\n  table"))  # type: ignore[attr-defined]
    assert summary(error) == "ERROR: no table"


def test_long_ones_are_cut() -> None:
    assert len(summary("x" * 2000)) < 600
