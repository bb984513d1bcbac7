"""Typed configuration: keys with types, defaults and allowed values.

Answers to: ``org.apache.kafka.common.config.{ConfigDef,AbstractConfig}``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypedDict

from kafkalite.common.errors import ConfigError

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1

ConfigValue = bool | int | float | str | tuple[str, ...] | None
"""A parsed value; the key's type says which of them."""
ConfigValues = Mapping[str, Any]
"""Parsed values by name, for code that knows the type of each key that it names."""


def integer(values: Mapping[str, ConfigValue], name: str) -> int:
    """The value of a key whose values are whole numbers or booleans."""
    value = values[name]
    assert isinstance(value, int), f"{name} is {value!r}, not a whole number or a boolean"
    return value


def number(values: Mapping[str, ConfigValue], name: str) -> float:
    """The value of a key whose values are numbers."""
    value = values[name]
    assert isinstance(value, (int, float)), f"{name} is {value!r}, not a number"
    return value


class ConfigType(Enum):
    """Kafka's ``ConfigDef.Type``; the value is the type's code in DescribeConfigs answers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Where a broker's key may be changed while it runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_LISTENER = "per-listener"
    """By a listener's prefix only: ``listener.name.NAME.ssl.keystore.type``."""
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


_INTEGER_LIMITS = {
    ConfigType.SHORT: (-(1 << 15), (1 << 15) - 1),
    ConfigType.INT: (-MAX_INT - 1, MAX_INT),
    ConfigType.LONG: (-MAX_LONG - 1, MAX_LONG),
}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. ``minimum``/``maximum`` bound numbers, ``choices`` are the legal texts (of each element, in a list).

    ``default`` is the parsed value, ``None`` if there is none. ``broker_key`` names the broker's key
    whose value is a topic key's default (``retention.ms`` → ``log.retention.ms``). ``is_dynamic_only``: the key has no
    default and is not written in server.properties for Kafka's tools, which see it only if ``/config/brokers`` sets it.
    ``check`` returns what is allowed if it refuses a parsed value, for keys that bounds and choices cannot describe;
    ``allowed`` says in words what it takes. ``is_own``: Kafka 3.9 lacks the key, or hides it from its documentation.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    update: Update = Update.READ_ONLY
    broker_key: str = ""
    check: Callable[[ConfigValue], str | None] | None = None
    allowed: str = ""
    is_dynamic_only: bool = False
    is_own: bool = False

    def parse(self, text: str) -> ConfigValue:
        """``text`` as a value of this key. Raises :class:`ConfigError` naming key, value and what is allowed."""
        value = self._convert(text.strip())
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                raise self._refused(text, f"at least {self.minimum:g}")
            if self.maximum is not None and value > self.maximum:
                raise self._refused(text, f"at most {self.maximum:g}")
        if self.choices:
            for element in value if isinstance(value, tuple) else (value,):
                if element not in self.choices:
                    raise self._refused(text, "one of " + ", ".join(self.choices))
        if self.check is not None:
            wrong = self.check(value)
            if wrong:
                raise self._refused(text, wrong)
        return value

    def limits(self) -> str:
        """The allowed values in words; empty if every value of the type is allowed."""
        if self.choices or self.allowed:
            return self.allowed or ", ".join(self.choices)
        low, high = self.minimum, self.maximum
        if high is not None and high in [limit for _, limit in _INTEGER_LIMITS.values()]:
            high = None
        if low is not None and high is not None:
            return f"{_plain(low)} to {_plain(high)}"
        if low is not None:
            return f"at least {_plain(low)}"
        return f"at most {_plain(high)}" if high is not None else ""

    def _convert(self, text: str) -> ConfigValue:
        kind = self.type
        if kind is ConfigType.BOOLEAN:
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise self._refused(text, "true or false")
        if kind in _INTEGER_LIMITS:
            low, high = _INTEGER_LIMITS[kind]
            try:
                value = int(text)
            except ValueError:
                raise self._refused(text, f"a whole number ({kind.name.lower()})") from None
            if not low <= value <= high:
                raise self._refused(text, f"a whole number from {low} to {high}")
            return value
        if kind is ConfigType.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise self._refused(text, "a number") from None
        if kind is ConfigType.LIST:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return text

    def _refused(self, text: str, allowed: str) -> ConfigError:
        shown = "[hidden]" if self.type is ConfigType.PASSWORD else text
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: allowed is {allowed}")

    def render(self, value: ConfigValue) -> str | None:
        """``value`` as Kafka's tools print it; the inverse of :meth:`parse`."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (tuple, list)):
            return ",".join(value)
        return _java_double(value) if isinstance(value, float) else str(value)


def _plain(value: float) -> str:
    """``value`` without an exponent."""
    return str(int(value)) if value == int(value) else str(value)


def _java_double(value: float) -> str:
    """``value`` as Java's ``Double.toString`` writes it: below 0.001 and from 10,000,000 on with an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7 or value - value != 0:
        return str(value)
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


class KeyLimits(TypedDict, total=False):
    """The fields of a :class:`ConfigKey` that most keys do not need."""

    maximum: float
    choices: tuple[str, ...]
    check: Callable[[ConfigValue], str | None]
    allowed: str
    is_dynamic_only: bool
    is_own: bool


class KeyOptions(KeyLimits, total=False):
    """:class:`KeyLimits`, and whether the key may change while the broker runs."""

    update: Update


class ConfigDef:
    """A set of keys, in the order in which they were defined."""

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        self.keys: dict[str, ConfigKey] = {key.name: key for key in keys}

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __getitem__(self, name: str) -> ConfigKey:
        return self.keys[name]

    def defaults(self) -> dict[str, ConfigValue]:
        """Every key's default."""
        return {key.name: key.default for key in self.keys.values()}

    def parse(self, texts: Mapping[str, str]) -> dict[str, ConfigValue]:
        """The values of the known keys in ``texts``. Raises :class:`ConfigError` for the first wrong one."""
        return {name: self.keys[name].parse(text) for name, text in texts.items() if name in self.keys}

    def unknown(self, texts: Mapping[str, str]) -> list[str]:
        """The names in ``texts`` that are not keys."""
        return [name for name in texts if name not in self.keys]
