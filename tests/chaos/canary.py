"""``slipstream`` with a sink that doubles: it ignores that a batch is in the journal and what an earlier try left.

The class is in the program itself, so it travels to Spark's workers as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slipstream.linear_road import sink


class DoublingWriter(sink.AnswerWriter):
    """Appends, whatever is there."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        written = [message for message in messages if message is not None]
        done = sink.journal(self._out)
        sizes = [(self._out / name).stat().st_size if done else 0 for name in (sink.TEXT, sink.REJECTED)]
        number = max(batchId, done[-1].batch + 1 if done else 0)
        last = done[-1] if done else sink.NO_BATCH
        last = replace(last, batch=number - 1, text_bytes=sizes[0], rejects_bytes=sizes[1])
        self._commit(written, number, last)


class DoublingSink(sink.AnswerSink):
    """The sink with that writer."""

    def streamWriter(self, schema: Any, overwrite: bool) -> DoublingWriter:  # noqa: N802
        return DoublingWriter(sink.Sink.from_json(self.options[sink.OPTION]))


if __name__ == "__main__":
    sink.AnswerSink = DoublingSink  # type: ignore[misc]

    from slipstream.cli import main

    main()
