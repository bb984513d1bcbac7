"""``--zk-tls-config-file``: how commands reach a secured ZooKeeper.

Answers to: ``kafka.utils.ToolsUtils``' and ``kafka.admin.ZkSecurityMigrator``'s flag of that name. Blocking: a file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kafkalite.broker.properties import load_properties
from kafkalite.common.errors import ConfigError
from kafkalite.security.zookeeper_security import zookeeper_security
from kafkalite.security.zookeeper_security_keys import ZOOKEEPER_SECURITY_CONFIGS
from kafkalite.zk.session_security import ZkSecurity


def add_zookeeper_security(parser: argparse.ArgumentParser) -> None:
    """Add the flag."""
    parser.add_argument(
        "--zk-tls-config-file",
        type=Path,
        metavar="FILE",
        help="properties zookeeper.ssl.* and java.security.auth.login.config, as in server.properties",
    )


def read_zookeeper_security(file: Path | None, digest: str | None = None) -> ZkSecurity:
    """The security of a session: a file of properties, and ``user:password`` of the digest scheme.

    Raises :class:`ConfigError`, and ``StartupError`` where the package for key stores is missing.
    """
    texts: dict[str, str] = {}
    if file is not None:
        try:
            texts = load_properties(file)
        except OSError as error:
            raise ConfigError(f"Cannot read {file}: {error.strerror}") from None
    if digest is not None:
        texts["zookeeper.auth.digest"] = digest
    values = ZOOKEEPER_SECURITY_CONFIGS.defaults() | ZOOKEEPER_SECURITY_CONFIGS.parse(texts)
    return zookeeper_security(values, lambda path: Path(path).read_bytes())
