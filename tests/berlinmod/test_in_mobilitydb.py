"""A MobilityDB takes the files that we export, and answers the 17 queries as we do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berlinmod.in_mobilitydb import QUERIES, SRID, InMobilityDB, mobilitydb
from slipstream._berlinmod import queries
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.exchange.export import export
from slipstream._berlinmod.generator import GeneratorPlan, generate
from slipstream._berlinmod.synthetic_city import synthetic_network

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with mobilitydb() as started:
        yield started


@pytest.fixture(scope="module")
def data(server, spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mobilitydb")
    generate(spark, GeneratorPlan(scale=0.001), synthetic_network(), folder / "data")
    opened = Dataset.open(folder / "data")
    export(spark, opened, "mobilitydb", folder / "files", SRID)
    queries.prepare(spark, opened)
    return opened


@pytest.fixture(scope="module")
def theirs(server, data) -> Iterator[InMobilityDB]:
    loaded = InMobilityDB(server, data.path.parent / "files")
    yield loaded
    loaded.close()


def test_the_exported_files_load(data, theirs):
    trips, metres = theirs.trips()
    assert trips == data.manifest.trips
    assert metres == pytest.approx(data.manifest.metres)


@pytest.mark.parametrize("number", QUERIES)
def test_answers_have_as_many_rows(spark, data, theirs, tmp_path, number):
    assert theirs.ask(number) == queries.run(spark, number, "tba", tmp_path).rows
