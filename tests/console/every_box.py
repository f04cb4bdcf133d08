"""Networks for tests of drawing, checking and saving; one has a box of every kind."""

from __future__ import annotations

EVERY_BOX = """
network: every_box
version: 1
sources:
  feed: {type: integer, time: integer, vid: integer, spd: integer, xway: integer, lane: integer, dir: integer,
         seg: integer, pos: integer, qid: integer, sinit: integer, send: integer, dow: integer, tod: integer,
         day: integer}
  named: {vid: text, time: integer, speed: integer}
tables:
  zones: {seg: integer, zone: text}
boxes:
  kinds: {filter: [type = 0, type = 2], from: feed}
  speeds: {map: {vid: vid, time: time, speed: spd, seg: seg}, from: kinds}
  sorted: {bsort: true, order: {on: time, slack: 2}, from: speeds}
  both: {union: true, from: [speeds, sorted]}
  cars: {keep: 'CREATE CUBOID car (vid INT KEY, speed SMALLINT AST(4))', from: speeds}
  fast: {query: 'SELECT vid, avg(speed) AS mean FROM car WHERE avg(speed) > 30', from: cars}
  seen: {lookup: {mean: avg(speed)}, key: vid, outer: true, from: [cars, sorted]}
  tolls: {toll: {rules: '2003', lateness: 2}, from: feed}
  change: {operator: braking, parameters: {by: 10}, from: named}
  minutes:
    aggregate: {cars: count(*)}
    order: {on: time, group_by: [seg]}
    size: 60
    clock: speeds
    from: sorted
  last: {latest: [seg], before: true, from: [speeds, minutes]}
  counted: {running: {reports: count(*)}, group_by: [vid], from: speeds}
  near: {resample: {mean: avg(speed)}, size: 30, left: {on: time}, right: {on: time, group_by: [seg]}, lag: 60,
         from: [sorted, speeds]}
  zoned: {join: left.seg = right.seg, outer: true, from: [speeds, zones]}
  pairs: {join: left.seg = right.seg, size: 5, left: {on: time}, right: {on: time}, from: [speeds, sorted]}
outputs:
  fast: {from: fast, to: 'text:fast.csv'}
  refused: {from: cars.rejects}
  alerts: {from: tolls.alerts}
  slower: {from: change}
  faster: {from: change.faster}
  last: {from: last, view: true, keep_tuples: 10}
  seen: {from: seen}
  trips: {from: speeds, archive: {id: vid, time: time, x: seg, y: speed, gap: 60}}
points:
  counts: {from: counted, keep_seconds: 60, key: vid}
"""

#: boxes that need different keys, so they are in different stages when there are several partitions
TWO_KEYS = """
network: two_keys
version: 1
sources: {cars: {vid: integer, seg: integer, time: integer, speed: integer}}
boxes:
  by_car: {running: {reports: count(*)}, group_by: [vid], from: cars}
  by_segment: {running: {speed_sum: sum(speed)}, group_by: [seg], from: by_car}
outputs: {each: {from: by_car}, sums: {from: by_segment}}
"""
