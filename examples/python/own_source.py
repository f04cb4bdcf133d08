"""A source of your own: the rows of a table in SQLite, as they are added.

A position is the number of a row. Spark records the positions of a batch before it reads them, so every row is
processed exactly once, whatever is interrupted.
"""

import sqlite3
from typing import Any

import slipstream as ss


class Positions(ss.Source):
    """The table ``positions`` of a database; it has ended when it has ``expected`` rows, if that is known."""

    def __init__(self, database: str, expected: int | None = None) -> None:
        self.database, self.expected = database, expected
        self.schema = {"id": "string", "time": "bigint", "position": "bigint"}

    def latest(self, start: int) -> int:
        """At most a thousand rows per batch."""
        with sqlite3.connect(self.database) as db:
            (newest,) = db.execute("SELECT coalesce(max(rowid), 0) FROM positions").fetchone()
        return min(int(newest), start + 1000)

    def read(self, start: int, end: int) -> dict[str, list[Any]]:
        """The rows after ``start``, up to ``end``."""
        with sqlite3.connect(self.database) as db:
            query = "SELECT id, time, position FROM positions WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
            rows = db.execute(query, (start, end)).fetchall()
        return {name: [row[place] for row in rows] for place, name in enumerate(self.schema)}

    def has_ended(self, position: int) -> bool:
        """Whether the last row that is expected has been read."""
        return position == self.expected


if __name__ == "__main__":
    job = ss.Job("out").write(ss.read(Positions("fleet.db")).select("id", "position"), name="places").start()
    job.wait()
