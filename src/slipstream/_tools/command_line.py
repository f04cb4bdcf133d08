"""The command line of this process as others may see it: jobs record what started them."""

from __future__ import annotations

from collections.abc import Sequence

#: an option whose values may be passwords
SECRET = "--kafka-config"

_words: tuple[str, ...] = ()


def remember(words: Sequence[str]) -> None:
    """Set the command line of this process, without the name of the program."""
    global _words  # noqa: PLW0603  (there is one command line per process)
    _words = tuple(hide_secrets(words))


def current() -> tuple[str, ...]:
    """Return the command line without secrets; empty if this process is no command of ours."""
    return _words


def hide_secrets(words: Sequence[str]) -> list[str]:
    """A command line without the values of Kafka's settings, which may be passwords.

    >>> hide_secrets(["--kafka-config", "sasl.password=x", "--kafka-config=a=b", "-o", "out"])
    ['--kafka-config', '...', '--kafka-config=...', '-o', 'out']
    """
    before = ["", *words]
    hidden = [f"{SECRET}=..." if word.startswith(f"{SECRET}=") else word for word in words]
    return ["..." if last == SECRET else word for last, word in zip(before, hidden, strict=False)]
