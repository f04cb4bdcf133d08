-- Q12: which vehicles met at a point from QueryPoints1 at an instant from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ K.Pos, K.Licence, II.Instant, K.Piece, K.tile
  FROM QueryInstants1 II JOIN PiecesAtPoint K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1
  WHERE K.Id <= 10),
There AS (
  SELECT /*+ BROADCAST(K) */ K.Pos, K.Instant, array_sort(collect_set(P.Licence)) AS Licences
  FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
  WHERE passes_during(P.Part, periods(K.Instant, K.Instant), K.Pos)
  GROUP BY K.Pos, K.Instant),
Firsts AS (SELECT *, explode(Licences) AS Licence1 FROM There)
SELECT Pos, Instant, Licence1, explode(filter(Licences, other -> other > Licence1)) AS Licence2
FROM Firsts
