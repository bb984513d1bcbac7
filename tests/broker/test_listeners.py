"""Which changes of listeners a running broker takes."""

from __future__ import annotations

import pytest

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.listeners import check_listeners
from kafkalite.common.errors import ConfigError

PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT"
PRESENT = {
    **BROKER_CONFIGS.defaults(),
    "listeners": "PLAINTEXT://h:1,OTHER://h:2,CONTROLLER://h:3",
    "control.plane.listener.name": "CONTROLLER",
    "listener.security.protocol.map": f"{PROTOCOLS},OTHER:PLAINTEXT",
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"listeners": "PLAINTEXT://h:1,EXTRA://h:4,CONTROLLER://h:3"},
        {"listeners": "PLAINTEXT://h:1,SECURE://h:4,CONTROLLER://h:3"},
        {"listeners": "PLAINTEXT://h:5,CONTROLLER://h:3"},
        {"advertised.listeners": "PLAINTEXT://public:9,CONTROLLER://h:3"},
    ],
)
def test_changes_that_are_taken(changes: dict[str, str]) -> None:
    check_listeners(PRESENT, {**PRESENT, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listeners": "PLAINTEXT://h:1,UNKNOWN://h:4"}, "listener.security.protocol.map"),
        ({"listeners": "OTHER://h:2,CONTROLLER://h:3"}, "it is PLAINTEXT, and would be OTHER"),
        ({"listeners": "PLAINTEXT://h:1,CONTROLLER://h:9"}, "CONTROLLER cannot be changed"),
        ({"listeners": "PLAINTEXT://h:1"}, "control.plane.listener.name"),
        ({"advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://public:3"}, "CONTROLLER cannot be changed"),
        ({"advertised.listeners": "PLAINTEXT://public:9"}, "control.plane.listener.name"),
        ({"advertised.listeners": "EXTRA://public:9"}, "allowed are the names in listeners"),
        ({"listener.security.protocol.map": f"{PROTOCOLS},OTHER:SSL"}, "cannot be updated for existing listener OTHER"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "OTHER"),
    ],
)
def test_changes_that_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_listeners(PRESENT, {**PRESENT, **changes})


def test_valid_listeners_may_replace_invalid_ones() -> None:
    check_listeners({**PRESENT, "listeners": "nonsense"}, PRESENT)
