-- Q11: which vehicles were at a point from QueryPoints1 at one of the instants from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ K.Pos, K.Licence, II.Instant, K.Piece, K.tile
  FROM QueryInstants1 II JOIN PiecesAtPoint K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1
  WHERE K.Id <= 10)
SELECT /*+ BROADCAST(K) */ DISTINCT P.Licence, K.Pos, K.Instant
FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
WHERE passes_during(P.Part, periods(K.Instant, K.Instant), K.Pos)
