"""The flags of Kafka's own tools, kept in ``kafka_tools.json``.

``python -m integration.tool_flags`` asks the tools again. The file stands in the repository, so that
``docs/cli.md`` can be generated without Java. ``test_tool_flags.py`` compares it with the tools.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.harness.java_consumer import java_program

FILE = Path(__file__).with_name("kafka_tools.json")
_FLAG = re.compile(r"^ {0,2}(?:-\w, )?(--[a-z][\w.-]*)(?=[ \n,]|$)", re.MULTILINE)
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of Kafka, and the command here that answers to it."""

    command: str
    """Command here, with its action if it has one: ``perf produce``."""
    script: str
    main: str
    """Java class."""
    actions: tuple[str, ...] = ()
    """Actions of the tool that have flags of their own."""

    def lines(self) -> list[str]:
        """Command lines that make the tool print its flags."""
        return [f"{self.main} --help", *(f"{self.main} {action} --help" for action in self.actions)]


TOOLS: Final = (
    Tool("topics", "kafka-topics.sh", "org.apache.kafka.tools.TopicCommand"),
    Tool("configs", "kafka-configs.sh", "kafka.admin.ConfigCommand"),
    Tool("acls", "kafka-acls.sh", "kafka.admin.AclCommand"),
    Tool("reassign", "kafka-reassign-partitions.sh", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"),
    Tool("elect", "kafka-leader-election.sh", "org.apache.kafka.tools.LeaderElectionCommand"),
    Tool("log-dirs", "kafka-log-dirs.sh", "org.apache.kafka.tools.LogDirsCommand"),
    Tool("get-offsets", "kafka-get-offsets.sh", "org.apache.kafka.tools.GetOffsetShell"),
    Tool("delete-records", "kafka-delete-records.sh", "org.apache.kafka.tools.DeleteRecordsCommand"),
    Tool(
        "transactions",
        "kafka-transactions.sh",
        "org.apache.kafka.tools.TransactionsCommand",
        ("list", "describe", "describe-producers", "abort", "find-hanging"),
    ),
    Tool("produce", "kafka-console-producer.sh", "kafka.tools.ConsoleProducer"),
    Tool("consume", "kafka-console-consumer.sh", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    Tool("groups", "kafka-consumer-groups.sh", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
    Tool("dump-log", "kafka-dump-log.sh", "kafka.tools.DumpLogSegments"),
    Tool("perf produce", "kafka-producer-perf-test.sh", "org.apache.kafka.tools.ProducerPerformance"),
    Tool("perf consume", "kafka-consumer-perf-test.sh", "org.apache.kafka.tools.ConsumerPerformance"),
    Tool("broker start", "kafka-server-start.sh", "kafka.Kafka"),
    Tool("zk secure", "zookeeper-security-migration.sh", "kafka.admin.ZkSecurityMigrator"),
)


def kept() -> dict[str, list[str]]:
    """Command here → flags of Kafka's tool, as the file has them."""
    found: dict[str, list[str]] = json.loads(FILE.read_text())
    return found


def ask() -> dict[str, list[str]]:
    """Command here → flags of Kafka's tool, as the tools print them. Raises ``ValueError`` if one prints none."""
    commands = {line: tool.command for tool in TOOLS for line in tool.lines()}
    done = subprocess.run(
        [*java_program("ToolHelp"), *commands],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    sections = _SECTION.split(done.stdout)[1:]
    lines, texts = sections[::2], sections[1::2]
    if lines != list(commands):
        raise ValueError(f"{len(lines)} of {len(commands)} tools answered: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    found: dict[str, str] = {}
    for command, text in zip(commands.values(), texts, strict=True):
        found[command] = found.get(command, "") + text
    return {command: _flags(text) for command, text in found.items()}


def _flags(text: str) -> list[str]:
    """The flags that a help text explains. Raises ``ValueError`` if there is none."""
    flags = sorted(set(_FLAG.findall(text)))
    if not flags:
        raise ValueError(f"no flags: {text[:2000]}")
    return flags


def main() -> int:
    FILE.write_text(json.dumps(ask(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
