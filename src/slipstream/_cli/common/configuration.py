"""The configuration file, ``slipstream.toml``: defaults for options, Spark's settings, and Kafka's.

The command line wins, then the environment, then the file. An unknown key is refused: a misspelt setting that
is silently ignored would be found too late.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from slipstream._errors import BadArgument, Place

#: the environment variable that names the file; empty for none
VARIABLE = "SLIPSTREAM_CONFIG"
NAME = "slipstream.toml"
_TABLES = ("spark", "kafka", "defaults")


@dataclass(frozen=True)
class Configuration:
    """The contents of a file: defaults by option, and additions to options that are lists, by parameter."""

    file: Path = Path(NAME)
    master: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    lists: Mapping[str, list[str]] = field(default_factory=dict)


_read = [Configuration()]


def current() -> Configuration:
    """The configuration of the command that runs."""
    return _read[-1]


def read(given: Path | None, context: Any) -> None:
    """Read the file and make its values the defaults of the command that is being parsed."""
    file = given or (None if VARIABLE in os.environ else _find_existing(Path(NAME)))
    _read[:] = [_load(file) if file else Configuration()]
    if file is None:
        return
    # processes that the command starts read the same file, wherever they run
    os.environ[VARIABLE] = str(file.absolute())
    words = context.command_path.split()[1:]
    known = dict(_list_options(context.find_root().command))
    found = {"master": current().master} if current().master else {}
    found |= _find_defaults(current().defaults, known, words)
    names = {option: p.name for p in context.command.params for option in _list_long_names(p)}
    context.default_map = {names[option]: value for option, value in found.items() if option in names}


def _find_existing(file: Path) -> Path | None:
    return file if file.is_file() else None


def _load(file: Path) -> Configuration:
    try:
        body = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(
            f"--config {file}: cannot be read ({error}).", hint="Give a TOML file.", code="no-such-file", found=file
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise BadArgument(
            f"{error}.", place=Place(file=str(file)), hint="The file must be TOML: https://toml.io", code="bad-config"
        ) from error
    _check_keys(file, "", body, _TABLES)
    tables = {name: _check_table(file, name, body.get(name, {})) for name in _TABLES}
    spark = tables["spark"]
    _check_keys(file, "spark", spark, ("master", "conf"))
    conf = dict(_flatten(_check_table(file, "spark.conf", spark.get("conf", {}))))
    for key in conf:
        if not key.startswith("spark."):
            _refuse(file, f"spark.conf.{key}", "not a Spark setting.", "Spark's settings begin with spark.")
    master = spark.get("master", "")
    if not isinstance(master, str):
        _refuse(file, "spark.master", f"{master!r} is not text.", 'Write master = "local[4]".')
    lists = {"conf": _join_pairs(conf), "kafka_config": _join_pairs(dict(_flatten(tables["kafka"])))}
    return Configuration(file, master, tables["defaults"], lists)


def _find_defaults(
    table: Mapping[str, Any], known: Mapping[tuple[str, ...], set[str]], words: list[str]
) -> Iterator[tuple[str, Any]]:
    """The defaults of the command ``words``: those of all commands first, then its own."""
    everywhere = set().union(*known.values())
    groups = {path[0] for path in known}
    _check_keys(current().file, "defaults", table, everywhere | groups)
    for key, value in table.items():
        if not isinstance(value, dict):
            yield _name_option(key), value
    yield from _check_own(table, known, (), tuple(words))


def _check_own(
    table: Mapping[str, Any], known: Mapping[tuple[str, ...], set[str]], path: tuple[str, ...], words: tuple[str, ...]
) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if not isinstance(value, dict):
            continue
        below = (*path, key)
        inner = {other[len(below)] for other in known if other[: len(below)] == below and len(other) > len(below)}
        _check_keys(current().file, ".".join(("defaults", *below)), value, known.get(below, set()) | inner)
        if below == words:
            yield from ((_name_option(name), one) for name, one in value.items() if not isinstance(one, dict))
        yield from _check_own(value, known, below, words)


def _list_options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """The long names of the options of every command."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, {name for parameter in command.params for name in _list_long_names(parameter)}
        return
    for name, one in below.items():
        yield from _list_options(one, (*path, name))


def _list_long_names(parameter: Any) -> list[str]:
    if parameter.param_type_name != "option":
        return []
    return [name.removeprefix("--") for name in parameter.opts if name.startswith("--")]


def _name_option(key: str) -> str:
    return key.replace("_", "-")


def _check_keys(file: Path, above: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    names = sorted(known)
    for key in table:
        if _name_option(key) not in names:
            near = difflib.get_close_matches(_name_option(key), names, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(names)}."
            _refuse(file, f"{above}.{key}" if above else key, "no such key.", hint, found=key, expected=names)


def _check_table(file: Path, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(file, key, "not a table.", f"Write [{key}] on a line of its own.")
    return dict(value)


def _flatten(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """``spark.driver.memory`` is a table in a table to TOML unless it is quoted."""
    for key, value in table.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _join_pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in table.items()]


def _refuse(file: Path, key: str, problem: str, hint: str, **data: Any) -> NoReturn:
    place = Place(file=str(file), field=key, words=f"{file}, {key}")
    raise BadArgument(problem, place=place, hint=hint, code="bad-config", **data)
