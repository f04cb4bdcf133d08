"""Errors are data: codes are stable and documented, data survives every journey, sentences are never parsed."""

from __future__ import annotations

import ast
import copy
import errno
import json
import pickle
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import Slipstream
from slipstream._errors import (
    _OS_CODES,
    CODES,
    MARK,
    BadArgument,
    BadInput,
    CheckFailed,
    Place,
    SlipstreamError,
    Unavailable,
    classify,
    locate,
    read_carried,
)

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "slipstream").rglob("*.py"))
KINDS = (SlipstreamError, BadArgument, BadInput, Unavailable, CheckFailed)

texts = st.text(st.characters(codec="utf-8"), max_size=20)
places = st.builds(
    Place, file=texts, line=st.none() | st.integers(1, 9), column=st.none() | st.integers(1, 9), box=texts, field=texts
)
errors = st.builds(
    lambda kind, problem, **data: kind(problem, **data),
    st.sampled_from(KINDS),
    texts.filter(bool),
    hint=texts,
    code=st.sampled_from(["", *CODES]),
    place=st.none() | places,
    found=st.none() | texts | st.integers(),
    expected=st.none() | st.lists(texts),
)


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def codes_in(tree: ast.AST) -> Iterator[str]:
    """The codes that a module gives to errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in CODES:
            yield node.value


def test_codes_are_in_kebab_case_and_each_is_used() -> None:
    assert list(CODES) == list(dict.fromkeys(CODES))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in CODES)
    used = [
        code
        for file in SOURCES
        if file.name != "_errors.py"
        for code in codes_in(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert {*CODES} == {*used, *_OS_CODES.values(), "io-error"} | {kind.usual_code for kind in KINDS}


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT / "src")))
def test_every_error_is_given_a_code(file: Path) -> None:
    if file.name == "_errors.py":
        return
    kinds = {kind.__name__ for kind in KINDS}
    for call in calls(ast.parse(file.read_text(encoding="utf-8"))):
        if getattr(call.func, "id", "") in kinds:
            codes = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
            assert codes, f"{file}, line {call.lineno}"
            assert {code.value for code in codes if isinstance(code, ast.Constant)} <= {*CODES}, f"line {call.lineno}"


def test_a_code_that_is_not_listed_is_refused() -> None:
    with pytest.raises(ValueError, match="no such code"):
        BadInput("x", code="made-up")


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT / "src")))
def test_a_new_error_does_not_quote_the_message_of_another(file: Path) -> None:
    if file.name == "_errors.py":
        return
    kinds = {kind.__name__ for kind in KINDS} | {"NotFound", "Conflict"}
    for call in calls(ast.parse(file.read_text(encoding="utf-8"))):
        if getattr(call.func, "id", "") in kinds:
            quoted = [node for node in ast.walk(call) if is_sentence(node) and getattr(node.value, "id", "") == "error"]
            assert not quoted, f"{file}, line {call.lineno}: error.within() keeps code, place, found and expected"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, "no-such-file"),
        (errno.EACCES, "permission-denied"),
        (errno.ENOSPC, "disk-full"),
        (errno.EROFS, "disk-read-only"),
        (errno.EIO, "io-error"),
    ],
)
def test_errors_of_the_operating_system_have_codes(number: int, code: str) -> None:
    assert classify(OSError(number, "x")) == code


def test_every_code_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \| [A-Z]", page, re.MULTILINE)[-len(CODES) :] == list(CODES)


TAKES_APART = {
    *("split", "rsplit", "partition", "rpartition", "splitlines", "startswith", "endswith", "removeprefix"),
    *("removesuffix", "find", "index", "match", "search", "fullmatch", "findall", "finditer", "sub"),
}
SENTENCES = ("message", "problem", "hint")


def is_sentence(node: ast.AST) -> bool:
    """Whether this is the sentence of an error: ``error.message``, ``refused.hint``."""
    owner = getattr(getattr(node, "value", None), "id", "")
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES and owner not in ("how", "self", "wrong")


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT / "src")))
def test_nothing_takes_our_sentences_apart(file: Path) -> None:
    if file.name in ("_errors.py", "usage.py"):  # who joins place and problem, and who reads Typer's
        return
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in TAKES_APART:
            parts = [node.func.value if isinstance(node.func, ast.Attribute) else node, *node.args]
            assert not any(map(is_sentence, parts)), f"{file}, line {node.lineno}"
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            assert not any(map(is_sentence, node.comparators)), f"{file}, line {node.lineno}"


@given(errors)
def test_an_error_survives_pickling_copying_and_a_traceback_of_spark(error: SlipstreamError) -> None:
    note = MARK + json.dumps(json.loads(json.dumps(carry(error))))
    for other in (
        pickle.loads(pickle.dumps(error)),
        copy.copy(error),
        read_carried(f"Traceback\nx.BadInput: no\n{note}\n\tat y"),
    ):
        assert type(other) is type(error)
        assert other.to_json() == error.to_json()
        assert str(other) == str(error)


def carry(error: SlipstreamError) -> object:
    from slipstream._errors import _carry

    return _carry(error)


@given(errors, texts.filter(bool), texts.filter(bool))
def test_a_place_is_added_to_what_an_error_knows(error: SlipstreamError, words: str, box: str) -> None:
    before, known = error.message, error.place.to_json()
    with pytest.raises(SlipstreamError), locate(words, box=box):
        raise error
    assert error.place.to_json() == {"box": box} | known
    assert error.message.startswith(words)
    assert error.problem in before


def test_a_sentence_that_names_its_place_already_stays_as_it_is() -> None:
    error = BadInput("network x, box y, column n: no type 'z'.")
    with pytest.raises(BadInput), locate("network x, box y", box="boxes.y"):
        raise error
    assert error.message == "network x, box y, column n: no type 'z'."
    assert error.problem == "column n: no type 'z'."
    assert error.place.box == "boxes.y"


def test_a_traceback_has_no_data_for_people() -> None:
    error = BadInput("no.", hint="Do.")
    error.add_note("a note")
    text = "".join(traceback.format_exception(error))
    assert MARK not in text
    assert "a note" in text


def test_an_error_within_another_keeps_its_data() -> None:
    error = BadArgument("no.", code="exists", found=3, place=Place(field="x")).within("network y stopped", BadInput)
    assert (type(error), error.message) == (BadInput, "network y stopped: field x: no.")
    assert (error.code, error.found, error.place.field) == ("exists", 3, "x")


@pytest.mark.parametrize("flag", ["--json", "-j"])
@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("toll nowhere -o out", "no-such-file", 2),
        ("toll nowhere -o out --sped 3", "bad-usage", 2),
        ("toll", "bad-usage", 2),
        ("history run --config none.toml", "no-such-file", 2),
        ("network check none.yaml", "no-such-file", 2),
        ("toll run.csv -o out --rules 1999", "unknown-value", 2),
        ("toll kafka:nowhere -o out", "malformed-value", 2),
        ("archive run.csv -o out --format xml", "unknown-value", 2),
        ("archive run.csv -o out --columns vid", "malformed-value", 2),
        ("cuboid query nowhere SELECT", "no-such-file", 2),
        ("job pause nowhere", "wrong-file-type", 2),
        ("export none --out x", "no-such-file", 2),
    ],
)
def test_a_failed_command_prints_json(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flag: str,
    line: str,
    code: str,
    expected: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.csv").write_text("0,0,1,10,0,0,0,0,5280,-1,-1,-1,-1,-1,-1\n", encoding="utf-8")
    ended = Slipstream(capsys)(*line.split(), flag)
    assert (ended.code, ended.out) == (expected, "")
    error = json.loads(ended.err.splitlines()[-1])["error"]
    assert (error["code"], error["exit_code"]) == (code, expected)
    assert error["message"]
    assert error["hint"]


def test_a_place_is_not_repeated() -> None:
    with pytest.raises(BadInput) as raised, locate("network x, box y", box="boxes.y"):
        raise BadInput("no column 'sped'.", code="unknown-column").within("network x, box y")
    assert raised.value.message == "network x, box y: no column 'sped'."
