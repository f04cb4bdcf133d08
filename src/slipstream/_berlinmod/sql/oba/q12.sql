-- Q12: which vehicles met at a point from QueryPoints1 at an instant from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ DISTINCT K.Pos, K.Licence, II.Instant
  FROM QueryInstants1 II JOIN PiecesAtPoint K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1
  WHERE K.Id <= 10),
There AS (
  SELECT /*+ BROADCAST(K) */ C.Licence, K.Pos, K.Instant
  FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence
  WHERE passes_during(C.Trip, periods(K.Instant, K.Instant), K.Pos))
SELECT V1.Pos, V1.Instant, V1.Licence AS Licence1, V2.Licence AS Licence2
FROM There V1 JOIN There V2 ON V1.Pos = V2.Pos AND V1.Instant = V2.Instant AND V1.Licence < V2.Licence
