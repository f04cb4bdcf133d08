"""A line of progress in a notebook, replaced as work proceeds; outside a notebook, nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

#: seconds between two looks at a job
EVERY_S = 0.5
Show: TypeAlias = Callable[[str], None]


@contextmanager
def line() -> Iterator[Show | None]:
    """Yield a function that shows HTML in one place of a notebook; None outside of notebooks.

    >>> with line() as show:
    ...     show is None
    True
    """
    if not is_notebook():
        yield None
        return
    from IPython.display import HTML, display

    as_html: Any = HTML
    shown = [""]
    place: Any = display(as_html(""), display_id=True)  # type: ignore[no-untyped-call]

    def show(text: str) -> None:
        if text != shown[0]:  # a notebook that is saved has every update in it
            shown[0] = text
            place.update(as_html(text))

    yield show


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None
