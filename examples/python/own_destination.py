"""A destination of your own: rows go into a table in SQLite, in one transaction with the number of their batch.

After a crash the batch that was interrupted is sent again. The table of batches shows whether it has arrived before.
"""

import sqlite3
from typing import TYPE_CHECKING

import slipstream as ss

if TYPE_CHECKING:
    import pyarrow as pa


class Alerts(ss.Destination):
    """Inserts the rows of an output into the table ``alerts`` of a database."""

    def __init__(self, database: str) -> None:
        self.database = database
        with sqlite3.connect(database) as db:
            db.execute("CREATE TABLE IF NOT EXISTS alerts (id TEXT, time INTEGER)")
            db.execute("CREATE TABLE IF NOT EXISTS batches (batch INTEGER PRIMARY KEY)")

    def send(self, batch: int, rows: "pa.Table") -> None:
        """Insert the rows, unless they are there."""
        with sqlite3.connect(self.database) as db:
            if db.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch,)).rowcount:
                db.executemany("INSERT INTO alerts VALUES (:id, :time)", rows.to_pylist())


if __name__ == "__main__":
    slow = ss.read("positions.csv").filter("speed < 20").select("id", "time")
    ss.Job("out").write(slow, name="alerts", to=Alerts("alerts.db")).run()
