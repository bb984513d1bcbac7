"""A login module and its options, as ``sasl.jaas.config`` or a section of a JAAS file has them.

Answers to: ``org.apache.kafka.common.security.JaasConfig`` and, for files (``java.security.auth.login.config``),
``com.sun.security.auth.login.ConfigFile``. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([=;])|([^\s=;"]+)', re.DOTALL)
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|#[^\n]*', re.DOTALL)
_SECTION: Final = re.compile(r'([^\s{};"]+)\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s*;', re.DOTALL)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_FORM: Final = 'allowed is <login module class> required <name>="<value>" …;'


@dataclass(frozen=True, slots=True)
class JaasConfig:
    """One login module. ``options`` are shown by no ``repr``, because they hold passwords."""

    module: str
    options: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> JaasConfig:
        """``module required name="value" …;``. Raises :class:`ValueError`, whose text has no part of ``text``."""
        tokens = _tokens(text)
        if len(tokens) < 3 or tokens[1][0].lower() not in _FLAGS or tokens[-1] != (";", True):
            raise ValueError(f"the JAAS configuration is malformed: {_FORM}")
        module, options = tokens[0][0], tokens[2:-1]
        if len(options) % 3 or any(options[i + 1] != ("=", True) for i in range(0, len(options), 3)):
            raise ValueError(f"an option of the JAAS configuration is malformed: {_FORM}")
        pairs = [(options[i], options[i + 2]) for i in range(0, len(options), 3)]
        if any(name[1] or value[1] for name, value in pairs):
            raise ValueError(f"an option of the JAAS configuration lacks a name or a value: {_FORM}")
        return cls(module, {name[0]: value[0] for name, value in pairs})

    @classmethod
    def of_section(cls, text: str, name: str) -> JaasConfig | None:
        """The login module of the section ``name { module required … ; };`` of a file; ``None`` without that section.

        Raises :class:`ValueError`, whose text has no part of ``text``, for a section that is malformed or has several
        modules.
        """
        text = _COMMENT.sub(lambda found: found.group(1) or " ", text)
        for section, body in _SECTION.findall(text):
            if section == name:
                return cls.parse(body)
        return None


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words, quoted texts without their quotes, and the marks ``=`` and ``;``; with each whether it is a mark."""
    tokens = []
    position = 0
    for found in _TOKEN.finditer(text):
        if text[position : found.start()].strip():
            raise ValueError(f"the JAAS configuration has a text that is not closed: {_FORM}")
        position = found.end()
        quoted, mark, word = found.groups()
        if quoted is not None:
            tokens.append((re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL), False))
        else:
            tokens.append((mark or word, mark is not None))
    if text[position:].strip():
        raise ValueError(f"the JAAS configuration has a text that is not closed: {_FORM}")
    return tokens
