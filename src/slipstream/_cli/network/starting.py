"""How ``slipstream network run`` starts a network.

All options are checked before Spark starts. Then the network is laid out in its folder, or opened there if it has
begun, and driven to the end of its input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._cli.common.checks import check_new, check_there
from slipstream._cli.common.input_options import Reading, check_input
from slipstream._cli.common.options import start_spark
from slipstream._cli.common.overwriting import clear_job
from slipstream._cli.network.network_options import (
    assign_rates,
    check_inputs,
    create_frames,
    is_feed,
    make_feeds,
    measure_costs,
    read_stored_tables,
    sample_feeds,
)
from slipstream._errors import BadArgument
from slipstream._tools.files.locations import local
from slipstream._tools.files.staging import check_makeable
from slipstream._tools.progress import Advance, bar, say

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream._io.named_feeds import Feed
    from slipstream._network.algebra import Arc, Network
    from slipstream._network.quality.shedding import Controller
    from slipstream._network.running.run_folder import Execution
    from slipstream._network.schemas import Checked


@dataclass(frozen=True)
class ParsedOptions:
    """The options of ``network run`` as they were parsed."""

    file: Path
    out: Path
    inputs: dict[str, str]
    tables: list[str] | None
    rates: dict[str, float]
    destinations: dict[str, list[str]]
    reading: Reading
    train: int | None
    taps: list[str]
    shed: bool
    optimise: bool
    parallel: int | None
    compact_every: int
    overwrite: bool
    functions: Path | None

    @property
    def is_live(self) -> bool:
        """Whether any input is a feed."""
        mapped, follow = self.reading.is_mapped, self.reading.follow
        return any(is_feed(where, follow=follow, mapped=mapped) for where in self.inputs.values())


@dataclass(frozen=True)
class Prepared:
    """A network that can start: its options are checked and its inputs are opened."""

    network: Network
    before: Execution | None  # the network that has begun in the folder
    rates: dict[str, float]
    taps: list[Arc]
    destinations: dict[str, list[str]]
    feeds: dict[str, Feed]
    recorded: dict[str, pa.Table]
    stored: dict[str, pa.Table]


def check_options(options: ParsedOptions) -> None:
    """Refuse options that exclude each other, and files and brokers that do not exist; imports nothing slow."""
    _check_together(options)
    for where in options.inputs.values():
        if where.startswith("kafka:"):
            check_input(where, follow=options.reading.follow)
    check_there(options.functions, option="--functions")
    if options.inputs or not options.out.exists():
        check_makeable(options.out)
        check_inputs(options.file, options.inputs)


def _check_together(options: ParsedOptions) -> None:
    given, live, paced = bool(options.inputs), options.is_live, bool(options.rates)
    begun = "A network that has begun continues as it is."
    checks = (
        (options.shed and not given, "--shed needs --input.", begun),
        (options.shed and not (paced or live), "--shed needs --rate, or a feed.", "Overload depends on the rate."),
        (options.optimise and not given, "--optimise needs --input.", begun),
        (live and paced, "--rate is for recordings; a feed has its own.", "Leave it out."),
        (options.overwrite and not given, "--overwrite needs --input.", "Without both, the network in --out resumes."),
    )
    for is_wrong, message, hint in checks:
        if is_wrong:
            raise BadArgument(message, hint=hint, code="conflicting-options")


def find_begun(network: Network, out: Path) -> Execution | None:
    """Return the network that has begun in the folder, if there is one."""
    from slipstream._io.outputs import check_journal
    from slipstream._network.running.run_folder import Execution

    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    found = Execution.open(out)
    check_journal(out)
    if found.network != network:
        say(f"[yellow]note:[/] {out} continues with the network it was started with, {out / 'network.yaml'}")
    return found


def prepare(options: ParsedOptions, network: Network, before: Execution | None) -> Prepared:
    """Check what needs the network, and open the inputs."""
    from slipstream._io.sampling import warn_of_empty_columns
    from slipstream._network.running.recordings import read_inputs
    from slipstream._network.running.run_folder import ANOTHER

    rates, taps = assign_rates(network, options.rates), _find_taps(network, options.taps)
    if not before and not options.overwrite:
        check_new(options.out, hint=ANOTHER)
    destinations = _choose_destinations(options, network, before)
    feeds = make_feeds(network, options.inputs, options.reading) if options.is_live else {}
    for feed in feeds.values():
        warn_of_empty_columns(feed)
    files = {name: Path(local(where)) for name, where in options.inputs.items()}
    recorded = {} if before or options.is_live else read_inputs(network, files)
    stored = read_stored_tables(before.network if before else network, options.tables)
    _check_parallel(options.parallel, before)
    return Prepared(network, before, rates, taps, destinations, feeds, recorded, stored)


def _find_taps(network: Network, texts: list[str]) -> list[Arc]:
    """Return the arcs to record; refuse those that the network does not have."""
    from slipstream._network.algebra import Arc
    from slipstream._network.running.run_folder import check_taps

    arcs = [Arc.parse(text) for text in texts]
    check_taps(network, arcs)
    return arcs


def _choose_destinations(options: ParsedOptions, network: Network, before: Execution | None) -> dict[str, list[str]]:
    """Return where outputs go; a network that has begun keeps its destinations."""
    from slipstream._io.outputs.destinations import check_brokers, check_unused
    from slipstream._network.running.run_folder import collect_destinations

    given = options.destinations
    chosen = before.to if before else collect_destinations(network, given)
    if before and given and collect_destinations(before.network, given) != chosen:
        begun = ", ".join(f"{name}={where}" for name, several in chosen.items() for where in several) or "nothing"
        raise BadArgument(
            f"--to: {options.out} was started with {begun}.", hint="Leave out --to to resume it.", code="different-job"
        )
    if not before:
        check_unused(options.out, chosen)
    check_brokers(chosen, options.reading.kafka)
    return chosen


def _check_parallel(parallel: int | None, before: Execution | None) -> None:
    """Refuse other partitions for a network that has begun: its state lies in them."""
    if before is not None and parallel not in (None, before.parallel):
        raise BadArgument(
            f"--parallel {parallel}: {before.folder} was started with {before.parallel}.",
            hint="Leave it out to resume, or run the network afresh in another folder.",
            code="different-job",
        )


def run(options: ParsedOptions, prepared: Prepared, master: str, conf: list[str] | None) -> Execution:
    """Start Spark, and run the network to the end of its input."""
    from slipstream._network.running.run_folder import ALL

    clear_job(options.out, options.overwrite)
    small = _is_small(prepared, live=options.is_live) and (options.parallel or 1) == 1
    spark = start_spark(f"network {prepared.network.name}", master, conf, quick=small)
    checked = _check_network(spark, options, prepared)
    controller = _make_controller(spark, checked, prepared) if options.shed else None
    execution = prepared.before or _lay_out(spark, checked, options, prepared)
    execution.known, execution.kafka = checked, options.reading.kafka
    if prepared.taps:
        execution.taps = prepared.taps
    tables = create_frames(spark, prepared.stored)
    _drive(spark, execution, tables, controller, ALL if prepared.rates else 1, options.compact_every)
    return execution


def _is_small(prepared: Prepared, *, live: bool) -> bool:
    """Whether one worker is enough, so that Spark can start quickly."""
    from slipstream._network.running.run_folder import SMALL

    if (before := prepared.before) is not None:
        return bool(before.feeds) or before.recording.get("tuples", SMALL) < SMALL
    return live or sum(table.num_rows for table in prepared.recorded.values()) < SMALL


def _check_network(spark: Any, options: ParsedOptions, prepared: Prepared) -> Checked:
    """Check the network with Spark, and optimise it if that is wanted and there are tuples to measure."""
    from slipstream._network.quality.optimiser import optimise
    from slipstream._network.schemas import check

    checked = check(prepared.before.network if prepared.before else prepared.network, spark)
    if not options.optimise:
        return checked
    sample = sample_feeds(prepared.feeds, options.reading.kafka) if options.is_live else prepared.recorded
    if not sample:
        return checked
    costs = measure_costs(spark, checked, sample, prepared.stored)
    better = optimise(checked, costs, lambda network: check(network, spark))
    for step in better.steps:
        say(f"optimised: {step}")
    return check(better.network, spark)


def _make_controller(spark: Any, checked: Checked, prepared: Prepared) -> Controller:
    """Return the controller that sheds load; the rates and costs of a feed are not known before it runs."""
    from slipstream._network.quality.shedding import Controller
    from slipstream._network.quality.statistics import Statistics

    recorded = prepared.recorded
    costs = measure_costs(spark, checked, recorded, prepared.stored) if recorded else Statistics()
    rates = {source.name: prepared.rates.get(source.name, 1.0) for source in checked.network.sources}
    return Controller(checked, costs, rates, spark.sparkContext.defaultParallelism)


def _lay_out(spark: Any, checked: Checked, options: ParsedOptions, prepared: Prepared) -> Execution:
    """Create the folder of a network that begins."""
    from slipstream._network.running.run_folder import Execution

    feeds, recorded, rates = prepared.feeds, prepared.recorded, prepared.rates
    parallel = options.parallel or _choose_partitions(spark, feeds, recorded, paced=bool(rates))
    to = options.destinations
    if feeds:
        return Execution.on_feeds(options.out, checked.network, feeds, parallel=parallel, to=to)
    train = options.train or _choose_train(rates)
    return Execution.record(
        options.out, checked.network, recorded, train=train, rate=rates or None, parallel=parallel, to=to
    )


def _choose_train(rates: Mapping[str, float]) -> int | dict[str, int]:
    """Return how many tuples make a train: half a second's, or many, since a batch costs a second."""
    return {source: max(round(rate / 2), 1) for source, rate in rates.items()} or 50_000


def _choose_partitions(spark: Any, feeds: dict[str, Feed], recorded: dict[str, pa.Table], *, paced: bool) -> int:
    """Return how many partitions pay off: one if a batch's fixed cost matters more than what one core can do."""
    from slipstream._io.readers.topic import watermarks
    from slipstream._network.running.run_folder import LONG

    cores: int = spark.sparkContext.defaultParallelism
    if any(feed.has_no_end for feed in feeds.values()) or paced:
        return 1
    partitions = [len(watermarks(feed.topic) or ()) for feed in feeds.values() if feed.is_topic]
    is_long = sum(table.num_rows for table in recorded.values()) >= LONG
    return cores if is_long else max(min(max(partitions, default=1), cores), 1)


def _drive(
    spark: Any,
    execution: Execution,
    tables: dict[str, Any],
    controller: Controller | None,
    trains: int,
    compact_every: int,
) -> None:
    from slipstream._network.running.driving import drive

    with bar("batches", _count_batches(execution)) as advance:
        drive(
            spark,
            execution,
            tables,
            controller=controller,
            trains=trains,
            watch=partial(_advance_bar, advance),
            compact_every=compact_every,
        )


def _advance_bar(advance: Advance, batch: int) -> None:  # noqa: ARG001
    advance(1)


def _count_batches(execution: Execution) -> int:
    """Return how many batches a recording makes at most, with a train of each source in each."""
    trains = Counter(train.parent.name for train in execution.waiting())
    return max(trains.values(), default=0)
