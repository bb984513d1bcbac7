"""A history under Kafka's authorizer: brokers and clients go on by their ACLs, through the faults of the plan."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kafkalite.broker.acl_authorizer import AclAuthorizer
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.testing.simulation.plan import draw_plan
from kafkalite.testing.simulation.run import run_history

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_brokers_under_an_authorizer_keep_the_promises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Everyone may use what has no ACL, so that every question is asked and allowed, those of brokers among them."""
    asked: set[tuple[AclOperation, AclResourceType]] = set()
    decide = AclAuthorizer.authorize

    def note(
        self: AclAuthorizer,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        type_: AclResourceType,
        name: str,
    ) -> bool:
        asked.add((operation, type_))
        return decide(self, principal, host, operation, type_, name)

    monkeypatch.setattr(AclAuthorizer, "authorize", note)
    plan = draw_plan(3)
    with caplog.at_level(logging.INFO, "kafkalite.authorizer"):
        outcome = run_history(replace(plan, settings={**plan.settings, **SETTINGS}))
    assert not outcome.violations
    assert outcome.acknowledged > 100
    assert {
        (AclOperation.WRITE, AclResourceType.TOPIC),
        (AclOperation.READ, AclResourceType.TOPIC),
        (AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER),
    } <= asked
    assert not [record for record in caplog.records if record.name == "kafkalite.authorizer"]
