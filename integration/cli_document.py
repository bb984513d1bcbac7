"""The text of ``docs/cli.md``: the commands with the flags of Kafka's own tools that they have, lack and add.

Flags come from the parsers of ``kafkalite.cli`` and from the tools of Kafka 3.9 (``tool_flags.py``). Only the reasons
stand here. A flag that a command lacks without a reason, and a reason without such a flag, raise ``ValueError``.
"""

from __future__ import annotations

import argparse
from textwrap import wrap
from typing import Final

from integration.tool_flags import TOOLS, Tool, kept
from kafkalite.cli.main import ALIASES, COMMANDS, actions, build_parser

WIDTH: Final = 118
PROPERTY: Final = "Write `--producer-property` with the name of librdkafka: "
JAVA_CLASS: Final = "Names a Java class; there is no JVM."
KRAFT: Final = "Only for KRaft; here is ZooKeeper."
NOT_BUILT: Final = "Not built. Kafka's own tool works with these brokers."
VERSION: Final = "--version"
"""The flag that no command has, because all of them have the version of the package."""
LACKED: Final[dict[str, dict[str, str]]] = {
    "topics": {
        "--delete-config": "Kafka's tool does not support it since it left ZooKeeper: `configs --delete-config`.",
        "--partition-size-limit-per-response": (
            "Belongs to DescribeTopicPartitions (KIP-966), which Kafka serves with KRaft only. `topics` sends Metadata."
        ),
    },
    "configs": {
        "--bootstrap-controller": KRAFT,
        "--broker-logger": "`--entity-type broker-loggers --entity-name ID`, which Kafka's tool has, too.",
        "--force": "No command asks a question.",
        "--zk-tls-config-file": "See `--zookeeper`.",
        "--zookeeper": (
            "Configurations are changed through a broker. SCRAM users that must exist before the first broker starts: "
            "`kafkalite cluster start --secure` writes them."
        ),
    },
    "acls": {
        "--authorizer": "Deprecated in Kafka: ACLs are changed through a broker.",
        "--authorizer-properties": "See `--authorizer`.",
        "--zk-tls-config-file": "See `--authorizer`.",
    },
    "produce": {
        "--line-reader": JAVA_CLASS,
        "--reader-config": "Properties of the line reader; write `--property` for each.",
        "--max-block-ms": f"{PROPERTY}`message.timeout.ms` limits the whole delivery.",
        "--max-memory-bytes": f"{PROPERTY}`queue.buffering.max.kbytes`.",
        "--max-partition-memory-bytes": f"{PROPERTY}`batch.size`.",
        "--message-send-max-retries": f"{PROPERTY}`message.send.max.retries`.",
        "--metadata-expiry-ms": f"{PROPERTY}`metadata.max.age.ms`.",
        "--request-timeout-ms": f"{PROPERTY}`request.timeout.ms`.",
        "--retry-backoff-ms": f"{PROPERTY}`retry.backoff.ms`.",
        "--socket-buffer-size": f"{PROPERTY}`socket.send.buffer.bytes`.",
    },
    "consume": {
        "--enable-systest-events": "Of the system tests of Kafka.",
        "--formatter": f"{JAVA_CLASS} `--json` prints records for programs.",
        "--formatter-config": "Properties of the formatter; write `--property` for each.",
        "--key-deserializer": JAVA_CLASS,
        "--value-deserializer": JAVA_CLASS,
        "--skip-message-on-error": "Bytes are printed as they are, so there is no such error.",
    },
    "dump-log": {
        "--cluster-metadata-decoder": KRAFT,
        "--offsets-decoder": (
            "Decodes `__consumer_offsets`, which does not exist: offsets are in ZooKeeper "
            "([groups.md](groups.md)). `kafkalite zk tree` shows them."
        ),
        "--transaction-log-decoder": (
            "Decodes `__transaction_state`, which does not exist: transactions are in ZooKeeper "
            "([transactions.md](transactions.md)). `kafkalite zk tree` shows them."
        ),
        "--remote-log-metadata-decoder": "There is no tiered storage.",
    },
    "perf produce": {
        "--payload-delimiter": NOT_BUILT,
        "--payload-file": NOT_BUILT,
        "--payload-monotonic": NOT_BUILT,
        "--print-metrics": "Prints the metrics of Java's client, which is not used.",
        "--producer.config": "`--command-config`, as with the other measurements.",
        "--transaction-duration-ms": NOT_BUILT,
        "--transactional-id": NOT_BUILT,
    },
    "perf consume": {
        "--broker-list": "Deprecated in Kafka: `--bootstrap-server`.",
        "--consumer.config": "`--command-config`, as with the other measurements.",
        "--date-format": "Times are printed as Kafka prints them by default.",
        "--fetch-size": NOT_BUILT,
        "--from-latest": NOT_BUILT,
        "--group": "Partitions are assigned by hand, because a rebalance would be measured, too.",
        "--num-fetch-threads": "Kafka ignores it.",
        "--print-metrics": "Prints the metrics of Java's client, which is not used.",
        "--reporting-interval": NOT_BUILT,
        "--show-detailed-stats": NOT_BUILT,
        "--socket-buffer-size": NOT_BUILT,
        "--threads": "Kafka ignores it.",
    },
    "zk secure": {
        "--enable.path.check": "Not built.",
        "--zookeeper.acl": "`--acl`, with the same values.",
        "--zookeeper.connect": "`--zookeeper`, as with the other commands.",
        "--zookeeper.connection.timeout": "Not built.",
        "--zookeeper.session.timeout": "Not built.",
    },
}
"""Command → flag of Kafka's tool that the command lacks → reason, or what to write instead."""

OTHERS: Final = (
    ("`kafka-e2e-latency.sh`", "`perf latency`; Kafka's tool has no flags, only positions."),
    ("`zookeeper-server-start.sh`", "`zookeeper start`"),
    ("`zookeeper-shell.sh`", "`zk tree`, `zk set`, `zk delete`."),
    ("`kafka-server-stop.sh`, `zookeeper-server-stop.sh`", "SIGTERM to the process, or `cluster stop`."),
    (
        "`connect-standalone.sh`, `connect-distributed.sh`",
        "`pipeline run`: Connect's job is done by Spark ([pipelines.md](pipelines.md)).",
    ),
    ("`connect-mirror-maker.sh`, `kafka-mirror-maker.sh`", "Kafka's own; see [data centres](data-centres.md)."),
    ("`connect-plugin-path.sh`", "There are no plug-ins of Connect."),
    ("`kafka-broker-api-versions.sh`", "Kafka's own; what it prints is also in [apis.md](apis.md)."),
    ("`kafka-delegation-tokens.sh`", "Kafka's own."),
    ("`kafka-replica-verification.sh`", "Not built; `doctor` finds replicas that are out of sync."),
    ("`kafka-verifiable-producer.sh`, `kafka-verifiable-consumer.sh`", "Kafka's own."),
    ("`kafka-cluster.sh`, `kafka-features.sh`", "Not built. `zk tree` shows the cluster's id and its features."),
    ("`kafka-client-metrics.sh`", "Not built: brokers do not take metrics of clients (KIP-714)."),
    ("`kafka-jmx.sh`", "There is no JMX; [metrics.md](metrics.md) has the metrics."),
    (
        "`kafka-streams-application-reset.sh`",
        "There is no Streams: remove the state of a pipeline ([pipelines.md](pipelines.md)).",
    ),
    ("`kafka-storage.sh`, `kafka-metadata-quorum.sh`, `kafka-metadata-shell.sh`", KRAFT),
    ("`kafka-run-class.sh`, `trogdor.sh`", "Of Kafka's own programs and tests."),
)
"""Scripts of Kafka 3.9 that have no table of flags, and what stands in their place."""


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command, or of an action of it (``perf produce``)."""
    words = command.split()
    parser = build_parser(words[0])
    for word in words:
        parser = actions(parser)[word]
    return parser


def flags_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The long flags of a parser and of its actions, with their help."""
    found = {
        flag: action.help or ""
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for flag in action.option_strings
        if flag.startswith("--")
    }
    for action in actions(parser).values():
        found = {**flags_of(action), **found}
    return found


def cli_document() -> str:
    """``docs/cli.md``. Raises ``ValueError`` if a reason lacks or is of no use."""
    out = [
        "# Commands, and the flags of Kafka's tools",
        "",
        *wrap(
            "Each command has the flags of the tool of Kafka 3.9 that it answers to. This page says for each tool "
            "which flags the command has, which it lacks and why, and which it adds. Kafka's own tools work with these "
            "brokers as well ([test_java_tools.py](../integration/test_java_tools.py)): use them for what is not here. "
            "`kafkalite COMMAND --help` shows what a flag means, with examples. Kafka's tools have `--version`: here "
            "`kafkalite --version` stands for all.",
            WIDTH,
        ),
        "",
        *wrap(
            "This page is made by `python -m integration.generated_docs` from the parsers of `kafkalite/cli` and from "
            "`integration/kafka_tools.json`, which has what the tools of Kafka 3.9.1 print for `--help` "
            "(`python -m integration.tool_flags`). "
            "[test_tool_flags.py](../integration/test_tool_flags.py) compares that file with the tools.",
            WIDTH,
        ),
        "",
        "## All commands",
        "",
        "| command | what it does | tool of Kafka |",
        "|---|---|---|",
    ]
    tools = {tool.command: tool for tool in TOOLS}
    for name, (_, text) in COMMANDS.items():
        own = [tool for command, tool in tools.items() if command.split()[0] == name]
        links = ", ".join(f"[`{tool.script}`](#{_anchor(tool)})" for tool in own) or "–"
        words = " ".join(f"`{action}`" for action in actions(parser_of(name)))
        out.append(f"| `{name}`{f' ({words})' if words else ''} | {text} | {links} |")
    out += ["", *(f"`{alias}` is another name of `{name}`." for alias, name in ALIASES.items())]
    for tool in TOOLS:
        out += ["", *_section(tool)]
    out += ["", "## Other scripts of Kafka", "", "| script of Kafka 3.9 | here |", "|---|---|"]
    out += [f"| {scripts} | {text} |" for scripts, text in OTHERS]
    return "\n".join(out) + "\n"


def _anchor(tool: Tool) -> str:
    return f"{tool.command} and {tool.script}".replace(" ", "-").replace(".", "")


def _section(tool: Tool) -> list[str]:
    """The part of the page on a tool."""
    kafka, here = kept()[tool.command], flags_of(parser_of(tool.command))
    lacked = [flag for flag in kafka if flag not in here and flag != VERSION]
    reasons = LACKED.get(tool.command, {})
    if set(reasons) != set(lacked):
        raise ValueError(f"{tool.command}: reasons for {sorted(reasons)}, but these flags lack: {lacked}")
    common = ", ".join(f"`{flag}`" for flag in kafka if flag in here)
    out = [f"## {tool.command} and {tool.script}", "", *_unbroken(f"As in `{tool.main}`: {common}.")]
    if lacked:
        out += ["", "| lacks | why, or what instead |", "|---|---|"]
        out += [f"| `{flag}` | {reasons[flag]} |" for flag in lacked]
    added = {flag: text for flag, text in here.items() if flag not in kafka and flag != "--help"}
    if added:
        out += ["", "| adds | |", "|---|---|"]
        out += [f"| `{flag}` | {_cell(text)} |" for flag, text in added.items()]
    return out


def _cell(text: str) -> str:
    return text.replace("|", r"\|") or "see `--help`"


def _unbroken(text: str) -> list[str]:
    """Lines of ``text`` in which no flag is divided."""
    return wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False)
