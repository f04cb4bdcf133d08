-- Q11: which vehicles were at a point from QueryPoints1 at one of the instants from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ DISTINCT K.Pos, K.Licence, II.Instant
  FROM QueryInstants1 II JOIN PiecesAtPoint K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1
  WHERE K.Id <= 10)
SELECT /*+ BROADCAST(K) */ C.Licence, K.Pos, K.Instant
FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence
WHERE passes_during(C.Trip, periods(K.Instant, K.Instant), K.Pos)
