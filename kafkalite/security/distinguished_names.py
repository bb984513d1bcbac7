"""The subject of a certificate as text, character by character as Java writes it.

Answers to: ``javax.security.auth.x500.X500Principal.getName(RFC2253)`` of Java 17. Pure.

The text is the name of the principal and stands in ACLs, so another spelling would be another principal. Java reads
every string as UTF-8, and writes attributes without a keyword of RFC 2253, and values that are no strings, in hex.
"""

from __future__ import annotations

from typing import Final

_VERSION: Final = 0xA0
_INTEGER: Final = 0x02
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OID: Final = 0x06
_STRINGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = ',=+<>#;"\\'
_BLANKS: Final = " \r"


def rfc2253_name(der: bytes) -> str:
    """The name whose DER encoding (``Name`` of X.501) is ``der``, most specific part first.

    Raises :class:`ValueError` if ``der`` is not such a name.
    """
    body, end = _element(der, 0, _SEQUENCE)
    if end != len(der):
        raise ValueError(f"{len(der) - end} bytes follow the distinguished name")
    parts = []
    position = 0
    while position < len(body):
        relative, position = _element(body, position, _SET)
        parts.append(_relative_name(relative))
    return ",".join(reversed(parts))


def subject_of(certificate: bytes) -> bytes:
    """The subject of a certificate in DER, as it stands there. Raises :class:`ValueError` if it is no certificate.

    An X.509 library would write the name again, perhaps with other types of strings.
    """
    body, _ = _element(certificate, 0, _SEQUENCE)
    signed, _ = _element(body, 0, _SEQUENCE)
    position = 0
    if signed[:1] == bytes((_VERSION,)):
        _, position = _element(signed, 0, _VERSION)
    # Serial number, algorithm of the signature, issuer, validity.
    for tag in (_INTEGER, _SEQUENCE, _SEQUENCE, _SEQUENCE):
        _, position = _element(signed, position, tag)
    _, end = _element(signed, position, _SEQUENCE)
    return signed[position:end]


def _relative_name(body: bytes) -> str:
    attributes = []
    position = 0
    while position < len(body):
        attribute, position = _element(body, position, _SEQUENCE)
        oid, value_at = _element(attribute, 0, _OID)
        value, end = _element(attribute, value_at, None)
        if end != len(attribute):
            raise ValueError("an attribute of the distinguished name has more than a type and a value")
        attributes.append(_attribute(_dotted(oid), attribute[value_at], value, attribute[value_at:end]))
    if not attributes:
        raise ValueError("the distinguished name has an empty part")
    return "+".join(attributes)


def _attribute(oid: str, tag: int, value: bytes, encoded: bytes) -> str:
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or oid}=#{encoded.hex()}"
    return f"{keyword}={_escape(value.decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    inner = text.lstrip(_BLANKS)
    lead = text[: len(text) - len(inner)]
    kept = inner.rstrip(_BLANKS)
    trail = inner[len(kept) :]
    middle = "".join("\\" + char if char in _ESCAPED else "\\00" if char == "\0" else char for char in kept)
    return "".join("\\" + char for char in lead) + middle + "".join("\\" + char for char in trail)


def _dotted(oid: bytes) -> str:
    if not oid or oid[-1] & 0x80:
        raise ValueError("an object identifier of the distinguished name is cut short")
    numbers = []
    number = 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _element(data: bytes, position: int, tag: int | None) -> tuple[bytes, int]:
    """The content of the DER element at ``position``, which must have ``tag``, and where the next one begins."""
    if position + 2 > len(data):
        raise ValueError("the distinguished name is cut short")
    if tag is not None and data[position] != tag:
        raise ValueError(f"the distinguished name has tag {data[position]:#04x} where {tag:#04x} is expected")
    size = data[position + 1]
    begin = position + 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 3 or begin + count > len(data):
            raise ValueError("the distinguished name has a malformed length")
        size = int.from_bytes(data[begin : begin + count], "big")
        begin += count
    if begin + size > len(data):
        raise ValueError("the distinguished name is cut short")
    return data[begin : begin + size], begin + size
