"""``kafkalite configs`` for users, clients and addresses: whose quota the flags mean, what is sent, what is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkalite.cli.configs import changes_of, entities, label_of
from kafkalite.cli.configs_quotas import Part, alter, describe, parts_of
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError

from .helpers import parse

ALICE = Part("user", "alice")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--entity-type", "users", "--entity-name", "alice"), [ALICE]),
        (("--user", "alice"), [ALICE]),
        (("--user-defaults",), [Part("user", "")]),
        (("--entity-type", "clients"), [Part("client-id", None)]),
        (
            ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default"),
            [ALICE, Part("client-id", "")],
        ),
        (("--client", "c1", "--user", "alice"), [ALICE, Part("client-id", "c1")]),
        (("--ip", "10.0.0.1"), [Part("ip", "10.0.0.1")]),
        (("--ip-defaults",), [Part("ip", "")]),
        (("--topic", "t"), None),
    ],
)
def test_entities(flags: tuple[str, ...], expected: list[Part] | None) -> None:
    assert parts_of(entities(parse("configs", "--describe", *flags))) == expected


@pytest.mark.parametrize(
    "flags",
    [("--user", "alice", "--ip", "10.0.0.1"), ("--client", "c1", "--topic", "t"), ("--user", "a", "--broker", "1")],
)
def test_other_entities_cannot_be_put_together(flags: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="users and clients together"):
        parts_of(entities(parse("configs", "--describe", *flags)))


class Broker:
    """An admin client whose broker has ``quotas`` and answers every change with ``error``."""

    def __init__(self, quotas: dict[tuple[Part, ...], dict[str, float]], error: int = 0) -> None:
        self._quotas = quotas
        self._error = error
        self.sent: list[Any] = []
        self._manager = self

    def run(self, _: object, __: object, request: Any, node: object) -> Any:
        from kafka.protocol.admin import AlterClientQuotasResponse, DescribeClientQuotasResponse

        assert node == {}
        self.sent.append(request)
        if type(request).__name__.startswith("Alter"):
            kind: Any = AlterClientQuotasResponse
            entry = kind.EntryData(error_code=self._error, error_message="no", entity=[])
            return kind(throttle_time_ms=0, entries=[entry])
        kind = DescribeClientQuotasResponse
        entries = [
            kind.EntryData(
                entity=[kind.EntryData.EntityData(entity_type=t, entity_name=name or None) for t, name in entity],
                values=[kind.EntryData.ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in self._quotas.items()
            if {part.entity_type for part in entity} == {each.entity_type for each in request.components}
        ]
        return kind(throttle_time_ms=0, error_code=0, error_message=None, entries=entries)


def changed(broker: Broker, *flags: str) -> list[tuple[str, float, bool]]:
    """What ``--alter`` with ``flags`` sends."""
    args = parse("configs", "--alter", *flags)
    kinds = entities(args)
    parts = parts_of(kinds)
    assert parts is not None
    admin: Any = broker
    assert alter(admin, parts, *changes_of(args), label_of(*kinds[0])) == 0
    (entry,) = broker.sent[-1].entries
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [(t, name or None) for t, name in parts]
    return [(op.key, op.value, op.remove) for op in entry.ops]


def test_quotas_are_set_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    broker = Broker({(ALICE,): {"consumer_byte_rate": 5.0}})
    sent = changed(
        broker, "--user", "alice", "--add-config", "producer_byte_rate=1e6", "--delete-config", "consumer_byte_rate"
    )
    assert sent == [("producer_byte_rate", 1000000.0, False), ("consumer_byte_rate", 0.0, True)]
    assert changed(broker, "--user-defaults", "--client", "c1", "--add-config", "request_percentage=50")
    assert changed(broker, "--ip", "10.0.0.1", "--add-config", "connection_creation_rate=5")
    assert capsys.readouterr().out.splitlines() == [
        "Completed updating config for user alice.",
        "Completed updating config for default users in the cluster.",
        "Completed updating config for ip 10.0.0.1.",
    ]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--user", "alice", "--add-config", "retention.ms=5"), "no quota: retention.ms"),
        (("--ip", "10.0.0.1", "--add-config", "producer_byte_rate=5"), "no quota: producer_byte_rate"),
        (("--user", "alice", "--add-config", "producer_byte_rate=fast"), "expected a number"),
        (("--user", "alice", "--delete-config", "producer_byte_rate"), "cannot delete what is not set"),
        (("--entity-type", "users", "--add-config", "producer_byte_rate=5"), "needs --entity-name"),
        (("--user", "alice"), "needs --add-config"),
    ],
)
def test_what_cannot_be_changed(flags: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        changed(Broker({}), *flags)


def test_the_broker_s_error_is_told() -> None:
    with pytest.raises(ApiError, match="no"):
        changed(Broker({}, error=42), "--user", "alice", "--add-config", "producer_byte_rate=5")


def test_shown_as_kafka_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    both = (Part("client-id", ""), ALICE)
    broker: Any = Broker({both: {"request_percentage": 12.5, "consumer_byte_rate": 5.0}})
    args = parse("configs", "--describe", "--entity-type", "clients", "--user", "alice")
    parts = parts_of(entities(args))
    assert parts is not None
    assert describe(broker, args, parts) == 0
    (request,) = broker.sent
    assert request.strict
    assert {(c.entity_type, c.match_type, c.match) for c in request.components} == {
        ("user", 0, "alice"),
        ("client-id", 2, None),
    }
    assert capsys.readouterr().out == (
        "Quota configs for user-principal 'alice', the default client-id are "
        "consumer_byte_rate=5.0, request_percentage=12.5\n"
    )
    args.json = True
    assert describe(broker, args, parts) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "entity": {"client-id": None, "user": "alice"},
            "quotas": {"consumer_byte_rate": 5.0, "request_percentage": 12.5},
        }
    ]
