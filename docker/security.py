"""The keys and the users of ``docker/compose.secured.yaml``, made before ZooKeeper and the brokers start.

Answers to: what the chapter "Security" of Kafka's documentation asks an operator to do. A script, not a module.

``security.py keys`` makes authority, keys and passwords in ``/security`` where they are missing, and copies to each
server of ``/keys`` its own key and the authority's certificate. ``security.py users`` writes the users into ZooKeeper.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from kafkalite.embedded.security import BROKER_NAME, LOCAL_HOSTS, ClusterSecurity
from kafkalite.embedded.users import register_users

PARENT = Path("/")
COPIES = Path("/keys")
"""One folder for each server, named as the service of the compose file."""
SEEN = Path("/etc/kafkalite")
"""Where a broker finds its folder of :data:`COPIES`."""
BROKER_USER, ZOOKEEPER_USER = 1001, 1000
"""User ids of the processes in the images."""
CLIENT_LISTENERS = ("INSIDE", "OUTSIDE")
BROKER_LISTENER = "BROKERS"


def main(arguments: list[str]) -> int:
    """Make the keys, or write the users; the exit code."""
    if arguments == ["keys"]:
        make_keys(ClusterSecurity.create(PARENT), os.environ["ADVERTISED_HOST"])
    elif arguments == ["users"]:
        security = ClusterSecurity.create(PARENT)
        register_users(os.environ["ZOOKEEPER_CONNECT"], security.credentials(), security.zookeeper_security())
    else:
        print("usage: security.py keys | users", file=sys.stderr)
        return 2
    return 0


def make_keys(security: ClusterSecurity, advertised_host: str) -> None:
    """Copy to each server its key and certificate, and to each broker its ``server.properties`` without addresses."""
    for folder in sorted(COPIES.iterdir()):
        kind, _, number = folder.name.partition("-")
        hosts = tuple(dict.fromkeys((*LOCAL_HOSTS, folder.name, advertised_host)))
        if kind == "broker":
            key = security.issue(folder.name, BROKER_NAME, hosts)
            properties = security.broker_properties(
                int(number), hosts, of_clients=CLIENT_LISTENERS, of_brokers=BROKER_LISTENER, folder=SEEN
            )
            (folder / "server.properties").write_text(
                "".join(f"{name}={value}\n" for name, value in properties.items())
            )
            owner = BROKER_USER
        else:
            key, owner = security.issue(folder.name, kind, hosts), ZOOKEEPER_USER
        shutil.copy(security.ca_file, folder)
        # One name for every server's file, because the settings of ZooKeeper are the same for all servers.
        shutil.copy(key, folder / (key.name if kind == "broker" else "key.pem"))
        for path in (folder, *folder.iterdir()):
            os.chown(path, owner, owner)
            path.chmod(0o700 if path.is_dir() else 0o600)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
