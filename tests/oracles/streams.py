"""Small streams in which everything happens that Linear Road has a rule for.

Crowds that make tolls, accidents in both directions and at both ends of the road, vehicles that fall silent, come back
from the exit or change the expressway, requests of all kinds, tuples that must be rejected. Deterministic by seed.
"""

from __future__ import annotations

from random import Random

ROAD = 528000
MILE = 5280
#: (expressway, direction, segment) where vehicles gather; the road's ends included
PLACES = ((0, 0, 5), (0, 0, 97), (0, 1, 2), (1, 1, 50), (1, 0, 0))


def report(time: int, vid: int, pos: int, *, spd: int = 30, xway: int = 0, lane: int = 1, dir: int = 0) -> str:
    return f"0,{time},{vid},{spd},{xway},{lane},{dir},{pos // MILE},{pos},-1,-1,-1,-1,-1,-1"


def balance(time: int, vid: int, qid: int) -> str:
    return f"2,{time},{vid},-1,-1,-1,-1,-1,-1,{qid},-1,-1,-1,-1,-1"


def expenditure(time: int, vid: int, qid: int, *, xway: int = 0, day: int = 1) -> str:
    return f"3,{time},{vid},-1,{xway},-1,-1,-1,-1,{qid},-1,-1,-1,-1,{day}"


def journey(time: int, vid: int, qid: int, start: int, end: int, *, xway: int = 0, dow: int = 1, tod: int = 1) -> str:
    return f"4,{time},{vid},-1,{xway},-1,-1,-1,-1,{qid},{start},{end},{dow},{tod},-1"


def busy_stream(seed: int, *, vehicles: int = 300, seconds: int = 600) -> list[str]:
    """Lines sorted by second, in no order within one."""
    random = Random(seed)
    lines: list[str] = []
    for vid in range(vehicles):
        _drive(random, lines, vid, seconds)
    for number, place in enumerate(PLACES):
        _crash(random, lines, vehicles + 2 * number, place, seconds)
    _ask(random, lines, vehicles, seconds)
    lines += _spoiled(random, lines)
    random.shuffle(lines)
    return sorted(lines, key=lambda line: int(line.split(",")[1]))


def busy_streams(*seeds: int) -> list[str]:
    """Several streams side by side, on expressways and with vehicles and requests of their own."""
    lines = []
    for number, seed in enumerate(seeds):
        for line in busy_stream(seed):
            fields = line.split(",")
            for place, shift in ((2, 1000), (4, 3), (9, 1000)):
                if fields[place] != "-1":
                    fields[place] = str(int(fields[place]) + number * shift)
            lines.append(",".join(fields))
    return sorted(lines, key=lambda line: int(line.split(",")[1]))


def _drive(random: Random, lines: list[str], vid: int, seconds: int) -> None:
    xway, direction, seg = random.choice(PLACES)
    pos = seg * MILE + random.randrange(MILE)
    time, lane = random.randrange(60), random.randrange(4)
    while time < seconds:
        lines.append(report(time, vid, pos, spd=random.randrange(45), xway=xway, lane=lane, dir=direction))
        time += random.choices((30, 29, 31, 7, 61), (90, 4, 3, 2, 2))[0]
        lane = random.choices((lane if lane < 4 or random.random() < 0.3 else 0, 1, 2, 3, 4), (80, 5, 5, 5, 8))[0]
        pos += (1 - 2 * direction) * random.choice((0, 0, 300, 900, 2500))
        if random.random() < 0.02 or not 0 <= pos < ROAD:
            xway, direction, seg = random.choice(PLACES)
            pos = seg * MILE + random.randrange(MILE)


def _crash(random: Random, lines: list[str], vid: int, place: tuple[int, int, int], seconds: int) -> None:
    xway, direction, seg = place
    pos, lane = seg * MILE + random.randrange(MILE), random.randrange(1, 4)
    for number in range(2):
        start = random.randrange(150)
        for time in range(start, min(start + random.randrange(120, 420), seconds), 30):
            lines.append(report(time, vid + number, pos, spd=0, xway=xway, lane=lane, dir=direction))


def _ask(random: Random, lines: list[str], vehicles: int, seconds: int) -> None:
    for qid in range(400):
        time, vid, xway = random.randrange(seconds), random.randrange(vehicles + 20), random.randrange(3)
        kind = random.choice((2, 2, 3, 4))
        if kind == 2:
            lines.append(balance(time, vid, qid))
        elif kind == 3:
            lines.append(expenditure(time, vid, qid, xway=xway, day=random.randrange(1, 70)))
        else:
            start, end = random.randrange(100), random.randrange(100)
            dow, tod = random.randrange(1, 8), random.choice((1, 500, 1439, 1440))
            lines.append(journey(time, vid, qid, start, end, xway=xway, dow=dow, tod=tod))


def _spoiled(random: Random, lines: list[str]) -> list[str]:
    """Duplicates, rivals and values out of range."""
    spoiled = []
    for line in random.sample(lines, 60):
        fields = line.split(",")
        if random.random() < 0.5:
            fields[3] = str(random.choice((101, -7, 12, 44))) if fields[0] == "0" else fields[3]
        elif random.random() < 0.5:
            fields[random.choice((5, 7, 14))] = "99"
        spoiled.append(",".join(fields))
    return spoiled
