"""YAML from the page: without aliases, by which a short text stands for a huge one."""

from __future__ import annotations

import yaml

from slipstream._errors import MALFORMED, BadInput


def refuse_aliases(text: str) -> None:
    """Refuse YAML that repeats a part by its name; whether the rest can be read is for its reader to say.

    >>> refuse_aliases("note: tolls & fines")
    >>> refuse_aliases("sources: &a {}\\ntables: *a")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    slipstream._errors.BadInput: The YAML repeats a part by an alias, *a...
    """
    try:
        found = next((event.anchor for event in yaml.parse(text) if isinstance(event, yaml.AliasEvent)), None)
    except (yaml.YAMLError, *MALFORMED):
        return
    if found is not None:
        raise BadInput(
            f"The YAML repeats a part by an alias, *{found}.", hint="Write that part out.", code="unreadable-file"
        )
