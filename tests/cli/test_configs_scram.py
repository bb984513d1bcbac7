"""SCRAM credentials in the flags of ``kafkalite configs``."""

from __future__ import annotations

import pytest

from kafkalite.cli.configs_scram import are_credentials, parse_credential
from kafkalite.cli.main import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=a,b=c", (4096, "a,b=c")),
        ("iterations=8192,password=iterations=1", (8192, "iterations=1")),
    ],
)
def test_iterations_may_be_left_out(text: str, expected: tuple[int, str]) -> None:
    assert parse_credential("SCRAM-SHA-256", text) == expected


@pytest.mark.parametrize("text", ["", "planted", "iterations=8192", "password=", "iterations=x,password=planted"])
def test_a_malformed_credential_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_credential("SCRAM-SHA-256", text)
    assert "planted" not in str(caught.value)


def test_credentials_and_quotas_are_not_mixed() -> None:
    assert are_credentials(["SCRAM-SHA-256"])
    assert not are_credentials(["producer_byte_rate"])
    with pytest.raises(UsageError):
        are_credentials(["SCRAM-SHA-256", "producer_byte_rate"])
