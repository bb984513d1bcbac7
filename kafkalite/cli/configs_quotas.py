"""``kafkalite configs`` for users, clients and addresses: their quotas, through the brokers.

Answers to: ``kafka.admin.ConfigCommand`` (3.9; ``alterQuotaConfigs``, ``describeQuotaConfigs``). Reactor shell (client
library).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.cli.clients import check_error, print_json, send
from kafkalite.cli.main import UsageError
from kafkalite.common.quota_rates import CONNECTION_CREATION_RATE, QuotaType

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_SHOWN: Final = {"user": "user-principal", "ip": "ip", "client-id": "client-id"}
_OF_CLIENTS: Final = tuple(each.value for each in QuotaType)
_OF_ADDRESSES: Final = (CONNECTION_CREATION_RATE,)
_EXACT, _DEFAULT, _ANY = 0, 1, 2


class Part(NamedTuple):
    """One type of an entity with its name: "" is the default, ``None`` any (for ``--describe``)."""

    entity_type: str
    name: str | None

    @property
    def shown(self) -> str:
        """The part as ConfigCommand prints it."""
        return f"{_SHOWN[self.entity_type]} '{self.name}'" if self.name else f"the default {_SHOWN[self.entity_type]}"


def parts_of(kinds: Sequence[tuple[str, str | None]]) -> list[Part] | None:
    """The entity that the flags name; ``None`` where it is a topic or broker. Raises :class:`UsageError`."""
    if not any(kind in TYPES for kind, _ in kinds):
        return None
    names = [kind for kind, _ in kinds]
    if names not in (["users"], ["clients"], ["ips"], ["users", "clients"], ["clients", "users"]):
        raise UsageError("--entity-type is one of users, clients and ips, or users and clients together")
    return [Part(TYPES[kind], name) for kind, name in kinds]


def describe(admin: KafkaAdminClient, args: argparse.Namespace, parts: Sequence[Part]) -> int:
    """``--describe`` of the entities that the flags name, and of no entity with another type beside it."""
    described = fetch(admin, parts)
    if args.json:
        print_json(
            [
                {"entity": {part.entity_type: part.name or None for part in entity}, "quotas": quotas}
                for entity, quotas in described
            ]
        )
        return 0
    for entity, quotas in described:
        order = list(_SHOWN)
        shown = ", ".join(part.shown for part in sorted(entity, key=lambda part: order.index(part.entity_type)))
        print(f"Quota configs for {shown} are " + ", ".join(f"{key}={value}" for key, value in quotas.items()))
    return 0


def alter(
    admin: KafkaAdminClient, parts: Sequence[Part], settings: Mapping[str, str], deleted: Sequence[str], label: str
) -> int:
    """``--alter``: quotas that are not named stay. Raises :class:`ApiError`."""
    if any(part.name is None for part in parts):
        raise UsageError("--alter needs --entity-name or --entity-default for each --entity-type")
    known = _OF_ADDRESSES if parts[0].entity_type == "ip" else _OF_CLIENTS
    unknown = sorted({*settings, *deleted} - set(known))
    if unknown:
        raise UsageError(f"no quota: {', '.join(unknown)}; allowed are {', '.join(known)}")
    present = dict(fetch(admin, parts)).get(tuple(parts), {})
    missing = [key for key in deleted if key not in present]
    if missing:
        raise UsageError(f"cannot delete what is not set: {', '.join(missing)}")
    changes = [(key, _number(key, text), False) for key, text in settings.items()] + [
        (key, 0.0, True) for key in deleted
    ]
    _send_changes(admin, parts, changes)
    print(f"Completed updating config for {label}.")
    return 0


def fetch(admin: KafkaAdminClient, parts: Sequence[Part]) -> list[tuple[tuple[Part, ...], dict[str, float]]]:
    """The entities that ``parts`` match exactly, with their quotas; parts stand in the order of ``parts``."""
    from kafka.protocol.admin import DescribeClientQuotasRequest

    component = DescribeClientQuotasRequest.ComponentData
    components = [
        component(
            entity_type=part.entity_type,
            match_type=_ANY if part.name is None else _EXACT if part.name else _DEFAULT,
            match=part.name or None,
        )
        for part in parts
    ]
    request = DescribeClientQuotasRequest(components=components, strict=True, max_version=1)
    response = send(admin, request)
    check_error(response)
    order = [part.entity_type for part in parts]
    found = []
    for entry in response.entries:
        entity = sorted(
            (Part(each.entity_type, each.entity_name or "") for each in entry.entity),
            key=lambda part: order.index(part.entity_type),
        )
        found.append((tuple(entity), {each.key: each.value for each in sorted(entry.values, key=lambda v: v.key)}))
    return sorted(found, key=lambda each: each[0])


def _send_changes(admin: KafkaAdminClient, parts: Sequence[Part], changes: Sequence[tuple[str, float, bool]]) -> None:
    from kafka.protocol.admin import AlterClientQuotasRequest

    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type=part.entity_type, entity_name=part.name or None) for part in parts
                ],
                ops=[entry.OpData(key=key, value=value, remove=remove) for key, value, remove in changes],
            )
        ],
        validate_only=False,
        max_version=1,
    )
    for result in send(admin, request).entries:
        check_error(result)


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{key}={text}: expected a number") from None
