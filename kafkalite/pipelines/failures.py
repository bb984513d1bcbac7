"""The cause of a query's failure, as one line, from the errors of Spark, its Java and its Python workers.

Answers to: ``org.apache.kafka.connect.runtime.WorkerTask``'s ``trace``, of which people want the last cause. Pure.
"""

from __future__ import annotations

import re
from typing import Any

_PYTHON = re.compile(r"^\s*(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt|Warning)): (.+)$", re.MULTILINE)
_JAVA = re.compile(r"^(?:Caused by: )?(?:[a-z][\w$]*\.)+([A-Z]\w*(?:Exception|Error)): (.+)$", re.MULTILINE)
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+)$", re.MULTILINE)
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+\s*$")
_NOISE = re.compile(r"^(?:Job aborted|Writing job|Task failed|\[TASK_WRITE_FAILED|\[STREAM_FAILED)")
LONGEST = 500


def summary(error: BaseException | str) -> str:
    """The cause, as one line without stacks."""
    java = getattr(error, "java_exception", None)
    text = _root_cause(java) if java is not None else str(error)
    for pattern in (_RAISED, _traceback):
        found = pattern.findall(text) if isinstance(pattern, re.Pattern) else pattern(text)
        if found:
            return _one_line(found[-1])
    causes = [f"{name}: {said}" for name, said in _JAVA.findall(text) if not _NOISE.match(said)]
    if causes:
        return _one_line(causes[-1])
    if java is not None:
        return _one_line(text)
    first = next((each for each in text.splitlines() if each.strip()), type(error).__name__)
    return _one_line(first)


def _root_cause(java: Any) -> str:
    """The innermost message of a Java exception that py4j passes on."""
    while (cause := java.getCause()) is not None:
        java = cause
    return str(java.getMessage() or java.toString())


def _traceback(text: str) -> list[str]:
    """The errors that end the tracebacks of Python in ``text``."""
    return [said for _, said in _PYTHON.findall(text) if "Traceback (most recent call last)" in text]


def _one_line(text: str) -> str:
    line = " ".join(_STATE.sub("", text).split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
