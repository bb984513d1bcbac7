"""The shell commands that mend what the doctor finds, with the addresses and files that its own flags named. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafkalite.common.types import TopicPartition
from kafkalite.doctor.broker_process import BrokerProcess


class StartedBroker(Protocol):
    """A broker as an operator starts it. ``config``: its file of properties on this machine; empty if not known."""

    @property
    def id(self) -> int: ...
    @property
    def config(self) -> str: ...
    @property
    def process(self) -> BrokerProcess | None: ...


@dataclass(frozen=True, slots=True)
class Commands:
    """``bootstrap``, ``zookeeper``: addresses. ``command_config``, ``zookeeper_config``: files, empty for none."""

    bootstrap: str
    zookeeper: str
    command_config: str = ""
    zookeeper_config: str = ""

    def kafka(self, command: str, *words: str, config_flag: str = "--command-config") -> str:
        """``kafkalite COMMAND`` against the brokers."""
        login = (config_flag, self.command_config) if self.command_config else ()
        return shlex.join(["kafkalite", command, "--bootstrap-server", self.bootstrap, *login, *words])

    def zk(self, action: str, *words: str) -> str:
        """``kafkalite zk ACTION`` against ZooKeeper."""
        login = ("--zk-tls-config-file", self.zookeeper_config) if self.zookeeper_config else ()
        return shlex.join(["kafkalite", "zk", action, "--zookeeper", self.zookeeper, *login, *words])

    def set_topic(self, topic: str, setting: str) -> str:
        """Set ``name=value`` of a topic."""
        return self.kafka(
            "configs", "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", setting
        )

    def reset_config(self, entity_type: str, name: str, key: str) -> str:
        """Remove an override, so that the default counts."""
        entity = ("--entity-default",) if name == "<default>" else ("--entity-name", name)
        return self.kafka("configs", "--alter", "--entity-type", entity_type, *entity, "--delete-config", key)

    def elect_preferred(self) -> str:
        """Make the preferred replicas leaders."""
        return self.kafka(
            "elect", "--election-type", "preferred", "--all-topic-partitions", config_flag="--admin.config"
        )

    def reassign(self, replicas: Mapping[TopicPartition, Iterable[int]]) -> str:
        """Move partitions to ``replicas``."""
        partitions = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(brokers)}
            for tp, brokers in replicas.items()
        ]
        plan = shlex.quote(json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":")))
        command = self.kafka("reassign", "--execute", "--reassignment-json-file")
        return f'plan=$(mktemp) && echo {plan} > "$plan" && {command} "$plan"'

    def set_properties(self, broker: StartedBroker, values: Mapping[str, object]) -> tuple[str, ...]:
        """Write properties into the broker's file in place of their former lines, and start the broker again."""
        scripts = [word for name, value in values.items() for word in ("-e", f"$ a {name}={value}")]
        scripts += [word for name in values for word in ("-e", _line_of(re.escape(name)))]
        return (f"sed -i {shlex.join(scripts)} {_file_of(broker)}", *self.restart(broker))

    def remove_properties(self, broker: StartedBroker, *names: str) -> tuple[str, ...]:
        """Remove properties from the broker's file, so that their defaults count, and start the broker again."""
        scripts = [word for name in names for word in ("-e", _line_of(re.escape(name)))]
        return (f"sed -i {shlex.join(scripts)} {_file_of(broker)}", *self.restart(broker))

    def restart(self, broker: StartedBroker) -> tuple[str, ...]:
        """End a broker that runs, by a controlled shutdown, and start it again."""
        process = broker.process
        if process is None:
            return (f"kill -TERM <pid of broker {broker.id}>", self.start(broker))
        # In the background where its output goes to a file; else it goes on where the operator sees it.
        again = f"setsid {process.command} >> {shlex.quote(process.log)} 2>&1 &" if process.log else process.command
        return (f"kill -TERM {process.pid}; tail --pid={process.pid} -f /dev/null; {again}",)

    def start(self, broker: StartedBroker) -> str:
        """Start a broker."""
        return f"kafkalite broker start --config {_file_of(broker)}"


def _line_of(name: str) -> str:
    """The command of sed that deletes the lines of a property."""
    return rf"/^\s*{name}\s*[=:]/d"


def _file_of(broker: StartedBroker) -> str:
    return shlex.quote(broker.config) if broker.config else f"<server.properties of broker {broker.id}>"
