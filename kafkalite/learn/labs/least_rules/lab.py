"""The student gives a user of a secured cluster the rules that it needs, and no others.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError

from kafkalite.common.acls import AclPermissionType
from kafkalite.embedded.security import CLIENT
from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import TIMEOUT, Workspace
from kafkalite.zk.znodes.acls import LITERAL_ROOT, PREFIXED_ROOT, decode_acls, resource_type

TOPIC, GROUP = "salaries", "payroll"
NEEDED = {f"Write on Topic {TOPIC}", f"Read on Topic {TOPIC}", f"Read on Group {GROUP}"}


class LeastRules:
    """Right: the user has written and read, and has only the three rules."""

    chapter = 12
    kind = LabKind.GUIDED
    needs = LabNeeds(secure=True)

    def prepare(self, workspace: Workspace) -> None:
        """An empty topic."""
        workspace.create_topic(TOPIC)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the rules in ZooKeeper, and look for the record and the offset."""
        rules = rules_of(workspace, f"User:{CLIENT}")
        missing, more = sorted(NEEDED - rules), sorted(rules - NEEDED)
        why = ""
        if more:
            why = f"More than is needed: {', '.join(more)}. Take it away with --remove."
        elif missing:
            why = "Rules are missing: try to write and to read, the error names the resource."
        end, offset = workspace.files(TOPIC).end_offset(), workspace.committed(GROUP, TOPIC)
        return [
            LabFinding(not why, f"{CLIENT} may: {', '.join(sorted(rules)) or 'nothing'}.", why),
            LabFinding(
                end > 0, f"The topic has {end} records.", "" if end else f"Write one as {CLIENT}: --producer.config."
            ),
            LabFinding(
                bool(offset), f"The offset of {GROUP} is {offset}.", "" if offset else f"Read a record as {CLIENT}."
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """Have the user read as a group that it has no rule for: with the rules on the topic alone."""
        consumer = Consumer({**workspace.login(CLIENT), "group.id": f"{GROUP}-outcome"})
        try:
            consumer.subscribe([TOPIC])
            message = consumer.poll(TIMEOUT)
        finally:
            consumer.close()
        error = None if message is None else message.error()
        refused = error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        return "b" if refused else "a"


def rules_of(workspace: Workspace, principal: str) -> set[str]:
    """What the ACLs in ZooKeeper say of ``principal``, each as ``Write on Topic orders``, with what is unusual."""
    rules = set()
    for root, pattern in ((LITERAL_ROOT, ""), (PREFIXED_ROOT, " (prefixed)")):
        for kind in filter(resource_type, workspace.tree.children(root)):
            for name in workspace.tree.children(f"{root}/{kind}"):
                path = f"{root}/{kind}/{name}"
                for entry in decode_acls(path, workspace.tree.get(path) or b""):
                    if entry.principal in (principal, "User:*"):
                        denied = "not " if entry.permission_type == AclPermissionType.DENY else ""
                        rules.add(f"{denied}{entry.operation.camel_name} on {kind} {name}{pattern}")
    return rules


LAB = LeastRules()
