"""Names of certificates as names of principals: ``ssl.principal.mapping.rules``.

Answers to: ``org.apache.kafka.common.security.ssl.SslPrincipalMapper``. Pure.

A rule is ``RULE:pattern/replacement/`` with an optional ``L`` or ``U`` (lower or upper case), or ``DEFAULT``, which
keeps the name. The first rule whose pattern matches the whole name gives the principal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_JAVA_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
_REPLACEMENT: Final = re.compile(r"\\(.)|\$([0-9]+)|\$\{(\w+)\}|([^\\$]+)|(.)", re.DOTALL)

Piece = str | int
"""A part of a replacement: a text, or the number of a group."""


@dataclass(frozen=True, slots=True)
class MappingRule:
    """One rule. ``pattern`` is ``None`` for ``DEFAULT``; ``case`` is ``L``, ``U`` or empty."""

    pattern: re.Pattern[str] | None
    replacement: tuple[Piece, ...] = ()
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The name of the principal; ``None`` if the pattern does not match the whole of ``name``."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Java replaces every match in the name, not only one of the whole name.
        result = self.pattern.sub(self._expand, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _expand(self, match: re.Match[str]) -> str:
        return "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in self.replacement)


class SslPrincipalMapper:
    """The rules of a listener. A wrong rule raises :class:`ValueError`, which names it."""

    def __init__(self, rules: str) -> None:
        texts = [found[1] for found in _SPLITTER.finditer(rules.strip())]
        self.rules = tuple(rule for text in texts if (rule := _parse(text)) is not None)

    def name(self, distinguished_name: str) -> str:
        """The principal's name. Raises :class:`LookupError` if no rule applies: the client is then refused."""
        for rule in self.rules:
            found = rule.apply(distinguished_name)
            if found is not None:
                return found
        raise LookupError(f"No rules apply to {distinguished_name}")


def _parse(text: str) -> MappingRule | None:
    found = _PARSER.match(text)
    end = 0 if found is None else found.end()
    if found is None or end != len(text):
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[end:]}`")
    if found[1] is not None:
        return MappingRule(None)
    if found[2] is None:
        return None  # An empty rule is ignored, as in Kafka.
    pattern = java_pattern(text, found[2])
    return MappingRule(pattern, tuple(java_replacement(text, found[3], pattern)), found[4])


def java_pattern(rule: str, text: str) -> re.Pattern[str]:
    """A regular expression in Java's syntax. Raises :class:`ValueError`, which names ``rule``."""
    try:
        return re.compile(_JAVA_GROUP.sub("(?P<", text))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"Invalid rule: `{rule}`, not a regular expression: {error}") from None


def java_replacement(rule: str, text: str, pattern: re.Pattern[str]) -> list[Piece]:
    """The pieces of a replacement in Java's syntax. A reference to a group that is not in the pattern is a text.

    Raises :class:`ValueError`, which names ``rule``.
    """
    pieces: list[Piece] = []
    for found in _REPLACEMENT.finditer(text):
        escaped, number, name, plain, odd = found.groups()
        if number is not None and (pattern.groups or number == "0"):
            pieces.extend(_reference(number, pattern.groups))
        elif name is not None and name in pattern.groupindex:
            pieces.append(pattern.groupindex[name])
        elif number is not None or name is not None or odd is not None:
            raise ValueError(f"Invalid rule: `{rule}`, the replacement `{text}` has a reference without a group")
        else:
            pieces.append(plain if escaped is None else escaped)
    return pieces


def _reference(digits: str, groups: int) -> list[Piece]:
    """``$12`` is group 12, else group 1 and the text ``2``, else the text ``$12``; as Java reads it."""
    group = int(digits[0])
    if group > groups:
        return ["$" + digits]
    size = 1
    while size < len(digits) and group * 10 + int(digits[size]) <= groups:
        group = group * 10 + int(digits[size])
        size += 1
    return [group, digits[size:]]
