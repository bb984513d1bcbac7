"""The count of failed authentications, in the log."""

from __future__ import annotations

import logging

import pytest

from kafkalite.network.failed_authentications import FailedAuthentications


def test_a_period_with_failures_has_one_line_for_each_listener(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    failed = FailedAuthentications(logging.getLogger("test"), lambda: now[0], 60.0)
    lines = []
    for seconds, listeners in ((59, ["CLIENTS", "CLIENTS"]), (1, ["BROKERS"]), (60, []), (61, ["CLIENTS"])):
        now[0] += seconds
        for listener in listeners:
            failed.add(listener, "10.0.0.1:5000", "wrong password")
        caplog.clear()
        failed.report()
        lines.append(caplog.messages)
    assert lines == [
        [],
        [
            "1 clients failed to authenticate on listener BROKERS in 60 s, 1 since the start",
            "2 clients failed to authenticate on listener CLIENTS in 60 s, 2 since the start",
        ],
        [],
        ["1 clients failed to authenticate on listener CLIENTS in 61 s, 3 since the start"],
    ]
