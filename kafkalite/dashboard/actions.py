"""What the page may change: each action as the form that the page shows, and as the command line that carries it out.

Answers to: nothing in Kafka. Pure. An action does what its command does, because it is that command: the page shows the
same words that are run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from kafkalite.cluster.model import topic_fault
from kafkalite.common.types import TopicPartition
from kafkalite.dashboard.entities import Value
from kafkalite.zk.znodes.consumers import offset_path

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MOST_CHARACTERS: Final = 1024


class ActionError(ValueError):
    """The request names no action, or one of its fields is wrong; the text says which and what is allowed."""


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """How the commands reach the cluster. ``directory``: of a local cluster, whose brokers may be killed and so on.

    ``zookeeper_flags`` and ``command_config`` are the flags with which the dashboard was started. ``digest`` is a
    secret: it is in the words of a command, but not in what the page shows.
    """

    zookeeper: str
    zookeeper_flags: tuple[str, ...] = ()
    digest: str | None = None
    command_config: str | None = None
    directory: str | None = None


@dataclass(frozen=True, slots=True)
class ActionCommand:
    """``words`` follow ``kafkalite``; ``shown`` is the whole line for a shell, without secrets."""

    words: tuple[str, ...]
    shown: str


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a form. ``kind``: ``topic``, ``group``, ``broker``, ``text``, ``number`` or ``choice``."""

    name: str
    label: str
    kind: str
    choices: tuple[str, ...] = ()
    default: str = ""

    def read(self, fields: Mapping[str, object]) -> str:
        """This field's value in ``fields``. Raises :class:`ActionError`."""
        value = fields.get(self.name, "")
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not text:
            raise ActionError(f"{self.label}: a value is missing")
        if len(text) > _MOST_CHARACTERS or _CONTROL.search(text):
            raise ActionError(f"{self.label}: at most {_MOST_CHARACTERS} characters, and no control characters")
        if self.kind in ("number", "broker") and not _NUMBER.fullmatch(text):
            raise ActionError(f"{self.label}: {text!r} is no number of at most 18 digits")
        if self.kind == "choice" and text not in self.choices:
            raise ActionError(f"{self.label}: {text!r} is none of {', '.join(self.choices)}")
        fault = topic_fault(text) if self.kind == "topic" else None
        if fault is not None:
            raise ActionError(f"{self.label}: {fault}")
        return text


Values = Mapping[str, str]
"""The values of a form by the names of its fields."""


@dataclass(frozen=True, slots=True)
class Action:
    """``build`` makes the words of the command of the values, of how the cluster is reached, and of its brokers."""

    title: str
    fields: tuple[Field, ...]
    build: Callable[[Values, ToolAccess, str], Sequence[str]]
    is_local: bool = False


_TOPIC: Final = Field("topic", "Topic", "topic")
_PARTITION: Final = Field("partition", "Partition", "number")
_GROUP: Final = Field("group", "Group", "group")
_BROKER: Final = Field("broker", "Broker", "broker")


def _flag(name: str, value: str) -> list[str]:
    """A flag with its value, which stays a value also where it begins with a dash."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _brokers(access: ToolAccess, bootstrap: str, config_flag: str = "--command-config") -> list[str]:
    config = [] if access.command_config is None else [config_flag, access.command_config]
    return ["--bootstrap-server", bootstrap, *config]


def _create_topic(values: Values, access: ToolAccess, bootstrap: str) -> Sequence[str]:
    sizes = ("--partitions", values["partitions"], "--replication-factor", values["replicas"])
    return ["topics", *_brokers(access, bootstrap), "--create", *_flag("--topic", values["topic"]), *sizes]


def _delete_topic(values: Values, access: ToolAccess, bootstrap: str) -> Sequence[str]:
    # The command takes an expression, in which a dot stands for any character.
    name = values["topic"].replace(".", r"\.")
    return ["topics", *_brokers(access, bootstrap), "--delete", *_flag("--topic", name)]


def _elect(values: Values, access: ToolAccess, bootstrap: str) -> Sequence[str]:
    where = (*_flag("--topic", values["topic"]), "--partition", values["partition"])
    return ["elect", *_brokers(access, bootstrap, "--admin.config"), "--election-type", values["type"], *where]


def _set_offset(values: Values, access: ToolAccess, bootstrap: str) -> Sequence[str]:  # noqa: ARG001
    path = offset_path(values["group"], TopicPartition(values["topic"], int(values["partition"])))
    digest = [] if access.digest is None else _flag("--digest", access.digest)
    zookeeper = ("--zookeeper", access.zookeeper, *access.zookeeper_flags, *digest)
    return ["zk", "set", *zookeeper, "--path", path, "--data", values["offset"]]


def _reset_group(values: Values, access: ToolAccess, bootstrap: str) -> Sequence[str]:
    where = (*_flag("--group", values["group"]), "--all-topics", f"--to-{values['to']}", "--execute")
    return ["groups", *_brokers(access, bootstrap), *access.zookeeper_flags, "--reset-offsets", *where]


def _fault(action: str) -> Callable[[Values, ToolAccess, str], Sequence[str]]:
    def build(values: Values, access: ToolAccess, bootstrap: str) -> Sequence[str]:  # noqa: ARG001
        return ["cluster", action, *_flag("--dir", access.directory or ""), "--broker", values["broker"]]

    return build


ACTIONS: Final[Mapping[str, Action]] = {
    "create-topic": Action(
        "Create a topic",
        (
            _TOPIC,
            Field("partitions", "Partitions", "number", default="3"),
            Field("replicas", "Replication factor", "number", default="1"),
        ),
        _create_topic,
    ),
    "delete-topic": Action("Delete a topic", (_TOPIC,), _delete_topic),
    "elect": Action(
        "Elect a leader",
        (_TOPIC, _PARTITION, Field("type", "Election", "choice", ("preferred", "unclean"))),
        _elect,
    ),
    "set-offset": Action(
        "Edit an offset of a group", (_GROUP, _TOPIC, _PARTITION, Field("offset", "Offset", "number")), _set_offset
    ),
    "reset-group": Action("Reset a group", (_GROUP, Field("to", "To", "choice", ("earliest", "latest"))), _reset_group),
    "kill": Action("Kill a broker", (_BROKER,), _fault("kill"), is_local=True),
    "pause": Action("Pause a broker", (_BROKER,), _fault("pause"), is_local=True),
    "resume": Action("Resume a broker", (_BROKER,), _fault("resume"), is_local=True),
    "cut": Action("Cut a broker off from ZooKeeper", (_BROKER,), _fault("cut"), is_local=True),
    "heal": Action("Let a broker reach ZooKeeper again", (_BROKER,), _fault("heal"), is_local=True),
    "expire": Action("Expire a broker's session", (_BROKER,), _fault("expire"), is_local=True),
}
"""All actions by their names."""


def offered(access: ToolAccess) -> list[Value]:
    """The forms of the actions that this dashboard has, as values for JSON."""
    return [
        {
            "name": name,
            "title": action.title,
            "fields": [
                {
                    "name": field.name,
                    "label": field.label,
                    "kind": field.kind,
                    "choices": list(field.choices),
                    "default": field.default,
                }
                for field in action.fields
            ],
        }
        for name, action in ACTIONS.items()
        if access.directory is not None or not action.is_local
    ]


def command_of(request: object, access: ToolAccess, bootstrap: str) -> ActionCommand:
    """The command of ``request``, which is ``{"action": name, "fields": {…}}``; ``bootstrap``: addresses of brokers.

    Raises :class:`ActionError`.
    """
    asked = cast("Mapping[str, object]", request) if isinstance(request, dict) else {}
    name, fields = asked.get("action"), asked.get("fields")
    action = ACTIONS.get(name) if isinstance(name, str) else None
    if action is None or not isinstance(fields, dict):
        raise ActionError("the request names no action of this page")
    if action.is_local and access.directory is None:
        raise ActionError(f"{action.title}: only where the dashboard was started with --dir, for a local cluster")
    values = {field.name: field.read(fields) for field in action.fields}
    words = tuple(action.build(values, access, bootstrap))
    if "--bootstrap-server" in words and not bootstrap:
        raise ActionError(f"{action.title}: no broker is registered that this dashboard could ask")
    secret = access.digest
    shown = [word if secret is None else word.replace(secret, "USER:PASSWORD") for word in words]
    return ActionCommand(words, shlex.join(["kafkalite", *shown]))
