"""The pages keep to the words that docs/writing.md agrees on, and the glossary defines the terms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: the names of others, and the page that shows what not to write
ELSEWHERE = ("reference/licences.md", "writing.md")
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.relative_to(ROOT / "docs").as_posix() not in ELSEWHERE and page.parent.name != "api"
    ),
]
UNIT = r"(?:second|minute|hour|batch|tuple|report|message|core|row|group|window|vehicle|trip|expressway|task|partition)"
#: what we do not write, and what we write instead
WORDS = {
    r"mend(?:s|ed|ing)?": "fix",
    r"wants? (?:a|an|the|to be|for)\b": "requires, needs",
    r"goes on\b": "resumes, continues",
    r"go on where": "resume",
    r"for ever\b": "forever, indefinitely",
    r"so many": "a number",
    r"by itself\b": "on its own",
    r"dear(?:er|est)?": "expensive",
    r"questions? (?:it|them|GPS|history|months)": "query",
    r"can be (?:asked|questioned)": "can be queried",
    r"told otherwise": "by default",
    r"of one'?s own": "your own",
    r"is no (?:run|tuple|message|number)": "is not a",
    r"are no (?:run|tuples|messages|numbers)": "are not",
    r"what stands in": "what is in",
    r"lay(?:s)? out a folder": "creates a folder",
    r"could not be had": "is not available",
    r"does not any more": "(since fixed)",
    r"quicker": "faster",
    r"beside(?:s)? itself": "with itself",
    rf"\d[\d,]*(?:\.\d+)?(?: (?:k|M|million|tuples|rows|bytes|ms|µs|ns))? an? {UNIT}\b": "per",
    rf"(?:tuples|rows|bytes|batches|reads|messages|answers|commits) an? {UNIT}\b(?! time)": "per",
}
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
#: terms of the papers and of ours, each defined once
TERMS = """
ad hoc query, arc, archive, arrival, atomic stream, batch, box, checkpoint, commit, connection point, continuous query,
convoy, cuboid, delay, destination, Emit, expressway, feed, fragment, history, job, journal, L-rating, lateness, Lav,
meeting, moving point, near, network, notification, OBA, order, output, partition, plane, position report, QoS, QTC,
recording, reject,
request, response time, run, segment, sequence, shard, shedding, slack, snapshot, source, stage, stored table, stream,
Streamonas-SQL, superbox, System X, TBA, toll, train, trajectory, trip, tuple, unit, utility, view, warm state, window
"""


def prose(page: Path) -> str:
    """The text of a page without its code; lines keep their numbers."""
    return _CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text(encoding="utf-8"))


def defined() -> list[str]:
    """The terms of the glossary, in its order."""
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    return [line.split("|")[1].strip().strip("*") for line in lines if line.startswith("| ") and "term |" not in line]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_our_words(page: Path) -> None:
    text = prose(page)
    found = [
        f"{page.name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: write {better}"
        for words, better in WORDS.items()
        for match in re.finditer(rf"\b{words}", re.sub(r"\n", " ", text), re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "sentence", ["mended since", "it wants a token", "937,000 tuples a second", "58 a second", "0.055 µs a report"]
)
def test_the_words_are_noticed(sentence: str) -> None:
    assert any(re.search(rf"\b{words}", sentence, re.IGNORECASE) for words in WORDS)


@pytest.mark.parametrize(
    "sentence", ["a second core", "for every vehicle", "once a minute", "wanted", "computes answers a second time"]
)
def test_plain_sentences_pass(sentence: str) -> None:
    assert not any(re.search(rf"\b{words}", sentence, re.IGNORECASE) for words in WORDS)


def test_the_glossary_defines_every_term_once() -> None:
    terms = defined()
    assert len(set(terms)) == len(terms)
    assert {term.strip() for term in TERMS.replace("\n", " ").split(",")} <= set(terms)
    assert terms == sorted(terms, key=str.lower)
