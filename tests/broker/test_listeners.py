"""Which changes of listeners a running broker takes."""

from __future__ import annotations

import pytest

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.listeners import check_listeners
from kafkalite.common.errors import ConfigError

PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,SECURE:SSL,CONTROLPLANE:PLAINTEXT"
PRESENT = {
    **BROKER_CONFIGS.defaults(),
    "listeners": "PLAINTEXT://h:1,OTHER://h:2,CONTROLPLANE://h:3",
    "listener.security.protocol.map": f"{PROTOCOLS},OTHER:PLAINTEXT",
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"listeners": "PLAINTEXT://h:1,EXTRA://h:4,CONTROLPLANE://h:3"},
        {"listeners": "PLAINTEXT://h:5,CONTROLPLANE://h:3"},
        {"listeners": "PLAINTEXT://h:1"},
        {"advertised.listeners": "PLAINTEXT://public:9"},
    ],
)
def test_changes_that_are_taken(changes: dict[str, str]) -> None:
    check_listeners(PRESENT, {**PRESENT, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listeners": "PLAINTEXT://h:1,UNKNOWN://h:4"}, "listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://h:1,SECURE://h:4"}, "SSL is not served"),
        ({"listeners": "OTHER://h:2,CONTROLPLANE://h:3"}, "it is PLAINTEXT, and would be OTHER"),
        ({"listeners": "PLAINTEXT://h:1,CONTROLPLANE://h:9"}, "CONTROLPLANE cannot be changed"),
        ({"advertised.listeners": "EXTRA://public:9"}, "allowed are the names in listeners"),
        ({"listener.security.protocol.map": f"{PROTOCOLS},OTHER:SSL"}, "SSL is not served"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "OTHER"),
    ],
)
def test_changes_that_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_listeners(PRESENT, {**PRESENT, **changes})


def test_whatever_is_right_may_follow_what_was_wrong() -> None:
    check_listeners({**PRESENT, "listeners": "nonsense"}, PRESENT)
