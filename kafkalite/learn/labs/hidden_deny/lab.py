"""The student finds the rule that denies, in the tree of prefixed ACLs.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafkalite.common import acls
from kafkalite.embedded.security import CLIENT
from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import TIMEOUT, Workspace
from kafkalite.zk.znodes.acls import LITERAL_ROOT, PREFIXED_ROOT, decode_acls

TOPIC, PREFIX, GROUP = "reports", "rep", "readers"
RECORDS = 3
REFUSED = "refused"


class HiddenDeny:
    """Right: the user reads, by the one rule that allows it."""

    chapter = 12
    kind = LabKind.PUZZLE
    needs = LabNeeds(secure=True)

    def prepare(self, workspace: Workspace) -> None:
        """Records, a rule that denies, and after it one that allows; and what the user gets then."""
        workspace.create_topic(TOPIC)
        workspace.produce(TOPIC, [(None, f"report {number}") for number in range(RECORDS)])
        admin = AdminClient(workspace.login())
        for kind, pattern, name, permission in (
            (ResourceType.GROUP, ResourcePatternType.LITERAL, GROUP, AclPermissionType.ALLOW),
            (ResourceType.TOPIC, ResourcePatternType.PREFIXED, PREFIX, AclPermissionType.DENY),
            (ResourceType.TOPIC, ResourcePatternType.LITERAL, TOPIC, AclPermissionType.ALLOW),
        ):
            rule = AclBinding(kind, name, pattern, f"User:{CLIENT}", "*", AclOperation.READ, permission)
            admin.create_acls([rule])[rule].result(TIMEOUT)
        workspace.note(answer=first_answer(workspace))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Read as the user, and look at the rules that allow."""
        answer = first_answer(workspace)
        allowed = allowing(workspace)
        kept = allowed == {f"Read on {TOPIC}"}
        why = ""
        if answer == REFUSED and allowed:
            why = "A rule allows it, so another one denies it: which rules match this name, beside its own?"
        elif answer == REFUSED:
            why = "No rule allows it any more, and what no rule allows is refused."
        return [
            LabFinding(answer != REFUSED, f"{CLIENT} reads: {answer}.", why),
            LabFinding(
                kept,
                f"Rules that allow {CLIENT} something on {TOPIC}: {', '.join(sorted(allowed)) or 'none'}.",
                ""
                if kept
                else f"It must be Read on {TOPIC} alone, as it was: the fault is not that too little is allowed.",
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From what the user got while both rules were there; the one that allows was the last, and the exact one."""
        return "c" if workspace.notes()["answer"] == REFUSED else "a"


def first_answer(workspace: Workspace) -> str:
    """The first record that the user gets, or :data:`REFUSED`."""
    consumer = Consumer({**workspace.login(CLIENT), "group.id": GROUP, "enable.auto.commit": "false"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        message = consumer.poll(TIMEOUT)
    finally:
        consumer.close()
    error = None if message is None else message.error()
    if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return REFUSED
    return "nothing" if message is None or error is not None else (message.value() or b"").decode()


def allowing(workspace: Workspace) -> set[str]:
    """The rules in ZooKeeper that allow the user something on the topic."""
    rules = set()
    for root in (LITERAL_ROOT, PREFIXED_ROOT):
        for name in workspace.tree.children(f"{root}/Topic"):
            matches = name in (TOPIC, acls.WILDCARD) if root == LITERAL_ROOT else TOPIC.startswith(name)
            path = f"{root}/Topic/{name}"
            for entry in decode_acls(path, workspace.tree.get(path) or b"") if matches else ():
                principals = (f"User:{CLIENT}", acls.WILDCARD_PRINCIPAL)
                if entry.principal in principals and entry.permission_type == acls.AclPermissionType.ALLOW:
                    rules.add(f"{entry.operation.camel_name} on {name}")
    return rules


LAB = HiddenDeny()
