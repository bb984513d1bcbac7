"""The audit log: what was denied (INFO) and what was allowed (DEBUG), in Kafka's words.

Answers to: ``kafka.security.authorizer.AclAuthorizer.logAuditMessage`` (logger ``kafka.authorizer.logger``). Pure.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.principals import KafkaPrincipal

AUDIT: Final = logging.getLogger("kafkalite.authorizer")


def audit(
    allowed: bool,
    principal: KafkaPrincipal,
    host: str,
    operation: AclOperation,
    type_: AclResourceType,
    name: str | None,
    request: str,
    count: int = 1,
) -> None:
    """Log a decision. ``name`` is ``None`` for one by the type of the resource; ``request`` is the API's name.

    ``count`` says how often the request names the resource. Names of clients are logged without line breaks.
    """
    resource = "UNKNOWN:NONE" if name is None else f"LITERAL:{_one_line(name)}"
    AUDIT.log(
        logging.DEBUG if allowed else logging.INFO,
        "Principal = %s is %s Operation = %s from host = %s on resource = %s:%s for request = %s "
        "with resourceRefCount = %d",
        _one_line(str(principal)),
        "Allowed" if allowed else "Denied",
        operation.camel_name,
        host,
        type_.camel_name,
        resource,
        request,
        count,
    )


def _one_line(text: str) -> str:
    """``text`` without characters that would forge lines of the log."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
