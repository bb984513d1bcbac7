"""The authorizer that ``authorizer.class.name`` asks for: none, Kafka's, or a class in Python.

Answers to: ``kafka.server.KafkaConfig.createNewAuthorizer``. Deterministic.
"""

from __future__ import annotations

import random
from importlib import import_module

from kafkalite.broker.acl_authorizer import AclAuthorizer
from kafkalite.broker.authorizer_keys import ACL_AUTHORIZER, AUTHORIZER_CONFIGS
from kafkalite.broker.config import BrokerConfig
from kafkalite.common.clock import Clock
from kafkalite.common.errors import StartupError
from kafkalite.common.principals import parse_super_users
from kafkalite.security.authorizer_interface import Authorizer
from kafkalite.zk.stores.acls import AclStore
from kafkalite.zk.zk_client import ZkClient


def make_authorizer(config: BrokerConfig, client: ZkClient, clock: Clock, rng: random.Random) -> Authorizer | None:
    """The authorizer of ``config``; ``None``: every client may do everything. Raises :class:`StartupError`."""
    name = str(config.values["authorizer.class.name"])
    if not name:
        return None
    if name == ACL_AUTHORIZER:
        values = {**AUTHORIZER_CONFIGS.defaults(), **AUTHORIZER_CONFIGS.parse(config.texts)}
        return AclAuthorizer(
            AclStore(client, clock, rng),
            parse_super_users(str(values["super.users"])),
            allow_if_no_acl=bool(values["allow.everyone.if.no.acl.found"]),
        )
    return _load(name, config)


def _load(name: str, config: BrokerConfig) -> Authorizer:
    module, _, class_name = name.partition(":")
    try:
        made: object = getattr(import_module(module), class_name)(dict(config.texts))
    except Exception as error:
        raise StartupError(
            f"authorizer.class.name={name} cannot be made ({type(error).__name__}: {error}); "
            "see whether the module can be imported by this Python, and whether the class takes the configuration"
        ) from error
    if not isinstance(made, Authorizer):
        raise StartupError(
            f"authorizer.class.name={name} is no authorizer: "
            "the class must derive from kafkalite.security.authorizer_interface.Authorizer"
        )
    return made
