"""A table of TOML into a dataclass, and what is said of one that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.options import flatten, parse_table

WHERE = "p.toml [options]"


@dataclass(frozen=True)
class Limits:
    """A table below the other."""

    most: int = 5


@dataclass(frozen=True)
class Options:
    """One field of each kind."""

    topic: str
    size: int = 1
    share: float = 0.5
    on: bool = False
    names: tuple[str, ...] = ()
    kind: Literal["a", "b"] = "a"
    limits: Limits = Limits()
    texts: Mapping[str, str] = field(default_factory=dict)
    anything: Mapping[str, object] = field(default_factory=dict)
    perhaps: str | None = None

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("'size' must not be negative")


GOOD: list[tuple[dict[str, Any], Options]] = [
    ({"topic": "t"}, Options("t")),
    ({"topic": "t", "names": "one"}, Options("t", names=("one",))),
    ({"topic": "t", "names": ["one", "two"]}, Options("t", names=("one", "two"))),
    ({"topic": "t", "share": 1}, Options("t", share=1.0)),
    ({"topic": "t", "limits": {"most": 3}}, Options("t", limits=Limits(3))),
    ({"topic": "t", "texts": {"a": {"b": "c"}}}, Options("t", texts={"a.b": "c"})),
    ({"topic": "t", "anything": {"a": {"b": 1}}}, Options("t", anything={"a": {"b": 1}})),
    ({"topic": "t", "perhaps": "x", "kind": "b", "on": True}, Options("t", perhaps="x", kind="b", on=True)),
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({}, f"{WHERE}: the key 'topic' is missing"),
    ({"topic": "t", "siez": 1}, f"{WHERE}: unknown key 'siez' (did you mean 'size'?)"),
    ({"topic": 3}, f"{WHERE}: 'topic' must be a text, not 3"),
    ({"topic": "t", "size": True}, f"{WHERE}: 'size' must be a whole number, not True"),
    ({"topic": "t", "size": 1.5}, f"{WHERE}: 'size' must be a whole number, not 1.5"),
    ({"topic": "t", "on": "yes"}, f"{WHERE}: 'on' must be true or false, not 'yes'"),
    ({"topic": "t", "kind": "c"}, f"{WHERE}: 'kind' must be one of a, b, not 'c'"),
    ({"topic": "t", "names": ["a", 2]}, f"{WHERE}: 'names' must be a text, not 2"),
    ({"topic": "t", "limits": 3}, f"{WHERE}: 'limits' must be a table, not 3"),
    ({"topic": "t", "limits": {"mots": 3}}, "p.toml [options.limits]: unknown key 'mots' (did you mean 'most'?)"),
    ({"topic": "t", "texts": {"a": 1}}, f"{WHERE}: 'texts.a' must be a text, not 1"),
    ({"topic": "t", "size": -1}, f"{WHERE}: 'size' must not be negative"),
]


@pytest.mark.parametrize(("table", "expected"), GOOD)
def test_good_tables(table: dict[str, Any], expected: Options) -> None:
    assert parse_table(Options, table, WHERE) == expected


@pytest.mark.parametrize(("table", "message"), BAD)
def test_bad_tables(table: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_table(Options, table, WHERE)
    assert str(caught.value) == message


def test_dotted_keys_are_keys() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a.b": 1, "a.c.d": 2, "e": 3}
