"""Names of Kerberos principals as names of users: ``sasl.kerberos.principal.to.local.rules``.

Answers to: ``org.apache.kafka.common.security.kerberos.{KerberosName,KerberosShortNamer,KerberosRule}``. Pure.

A rule is ``DEFAULT`` (the first part of a name of the default realm) or ``RULE:[n:format](pattern)s/from/to/g/L``: it
is for names of ``n`` parts, ``format`` puts parts together (``$0`` is the realm), ``pattern`` must match the whole of
the result, in which ``from`` is replaced by ``to`` once, or with ``g`` everywhere; ``L`` and ``U`` make it lower or
upper case. The first rule that gives a name counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkalite.security.principal_mapping import Piece, java_pattern, java_replacement

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d*):([^\]]*)](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?", re.ASCII
)
_PARAMETER: Final = re.compile(r"\$(\d*)", re.ASCII)


class KerberosName(NamedTuple):
    """``service/host@REALM``. ``host`` is ``None`` for a name of one part, ``realm`` for one without a realm."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Raises :class:`ValueError`."""
        found = _NAME.fullmatch(text)
        if found is not None:
            return cls(*found.groups())
        if "@" in text:
            raise ValueError(f"Malformed Kerberos name: {text}")
        return cls(text, None, None)


@dataclass(frozen=True, slots=True)
class KerberosRule:
    """One rule. ``parts`` is ``None`` for ``DEFAULT``; without ``replaced`` the name stays as ``form`` made it."""

    parts: int | None
    form: str = ""
    pattern: re.Pattern[str] | None = None
    replaced: re.Pattern[str] | None = None
    replacement: tuple[Piece, ...] = ()
    is_repeated: bool = False
    case: str = ""

    @classmethod
    def parse(cls, text: str) -> KerberosRule:
        """Raises :class:`ValueError`, which names the rule."""
        found = _RULE.match(text)
        if found is None:
            raise ValueError(f"Invalid rule: {text}")
        if found.end() != len(text):
            raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[found.end() :]}`")
        default, parts, form, pattern, replaced, replacement, repeated, case = found.groups()
        if default:
            return cls(None)
        if not parts:
            raise ValueError(f"Invalid rule: {text}, the number of parts is missing")
        highest = max((int(each or -1) for each in _PARAMETER.findall(form)), default=0)
        if "" in _PARAMETER.findall(form) or highest > int(parts):
            raise ValueError(f"Invalid rule: {text}, {form} names a part that {parts} parts do not have")
        from_pattern = None if replaced is None else java_pattern(text, replaced)
        return cls(
            int(parts),
            form,
            None if pattern is None else java_pattern(text, pattern),
            from_pattern,
            () if from_pattern is None else tuple(java_replacement(text, replacement, from_pattern)),
            repeated == "g",
            case or "",
        )

    def apply(self, parts: tuple[str, ...], default_realm: str) -> str | None:
        """The name of the user, from the realm and the other parts of a principal; ``None``: another rule may fit.

        Raises :class:`LookupError` for a name that has ``/`` or ``@``.
        """
        result = self._default(parts, default_realm) if self.parts is None else self._made(parts)
        if result is not None and ("/" in result or "@" in result):
            raise LookupError(f"Non-simple name {result} after a rule of sasl.kerberos.principal.to.local.rules")
        if result is not None and self.case:
            return result.lower() if self.case == "L" else result.upper()
        return result

    @staticmethod
    def _default(parts: tuple[str, ...], default_realm: str) -> str | None:
        return parts[1] if parts[0] == default_realm else None

    def _made(self, parts: tuple[str, ...]) -> str | None:
        if len(parts) - 1 != self.parts:
            return None
        base = _PARAMETER.sub(lambda found: parts[int(found[1])], self.form)
        if self.pattern is not None and self.pattern.fullmatch(base) is None:
            return None
        if self.replaced is None:
            return base
        return self.replaced.sub(self._expand, base, count=0 if self.is_repeated else 1)

    def _expand(self, match: re.Match[str]) -> str:
        return "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in self.replacement)


class KerberosShortNamer:
    """The rules of a listener. A wrong rule raises :class:`ValueError`."""

    def __init__(self, rules: tuple[str, ...], default_realm: str) -> None:
        self._rules = tuple(map(KerberosRule.parse, rules))
        self._default_realm = default_realm

    def short_name(self, principal: str) -> str:
        """The name of the user. Raises :class:`LookupError` if there is none: the client is then refused."""
        try:
            name = KerberosName.parse(principal)
        except ValueError as error:
            raise LookupError(str(error)) from None
        if name.realm is None:
            return name.service
        parts = (name.realm, name.service, *(() if name.host is None else (name.host,)))
        for rule in self._rules:
            found = rule.apply(parts, self._default_realm)
            if found == "":
                raise LookupError(f"A rule of sasl.kerberos.principal.to.local.rules gives {principal} an empty name")
            if found is not None:
                return found
        raise LookupError(f"No rules apply to {principal}: see sasl.kerberos.principal.to.local.rules")
