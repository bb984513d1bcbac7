"""The keys of authorization: which authorizer there is, and those of Kafka's own.

Answers to: ``authorizer.class.name`` of ``org.apache.kafka.server.config.ServerConfigs``, and the keys that
``kafka.security.authorizer.AclAuthorizer`` reads. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue
from kafkalite.common.principals import parse_super_users

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
"""The authorizer with ACLs in ZooKeeper, by Kafka's name."""

_PYTHON_CLASS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_CLASSES: Final = f"nothing, {ACL_AUTHORIZER}, or module:Class of an authorizer in Python"
_PRINCIPALS: Final = "principals like User:admin, with semicolons between them"
_ANOTHER_ZOOKEEPER: Final = "nothing, because the ACLs are kept in the ZooKeeper of zookeeper.connect"


def _class_fault(value: ConfigValue) -> str | None:
    if value in ("", ACL_AUTHORIZER) or _PYTHON_CLASS.fullmatch(str(value)):
        return None
    return f"{_CLASSES}, because kafkalite cannot load Java's classes, and has no metadata quorum"


def _super_users_fault(value: ConfigValue) -> str | None:
    try:
        parse_super_users(str(value))
    except ValueError as error:
        return f"{_PRINCIPALS}, because a super user is a principal ({error})"
    return None


AUTHORIZER_CLASS: Final = ConfigKey(
    "authorizer.class.name",
    ConfigType.STRING,
    "",
    "Authorizer of requests: Kafka's, with ACLs in ZooKeeper, or one in Python. Without one every client may do "
    "everything.",
    check=_class_fault,
    allowed=_CLASSES,
)
AUTHORIZER_CONFIGS: Final = ConfigDef(
    (
        ConfigKey(
            "super.users",
            ConfigType.STRING,
            "",
            "Principals that may do everything, separated by semicolons; brokers must be among them, or have the "
            "operation ClusterAction on the cluster.",
            check=_super_users_fault,
            allowed=_PRINCIPALS,
        ),
        ConfigKey(
            "allow.everyone.if.no.acl.found",
            ConfigType.BOOLEAN,
            False,
            "Whether everyone may use a resource for which there is no ACL.",
        ),
        ConfigKey(
            "authorizer.zookeeper.url",
            ConfigType.STRING,
            "",
            "ZooKeeper of the ACLs in Kafka; kafkalite keeps them in the ZooKeeper of the cluster.",
            check=lambda value: _ANOTHER_ZOOKEEPER if value else None,
            allowed="nothing",
        ),
    )
)
"""Keys of Kafka's authorizer. Kafka's own table lacks them: it describes them as it does any unknown key."""
