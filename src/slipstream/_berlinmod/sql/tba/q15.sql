-- Q15: which vehicles passed a point from QueryPoints1 during a period from QueryPeriods1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ K.Pos, PP.Period, K.Piece, K.tile
  FROM PeriodDays1 PP JOIN PiecesAtPoint K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin
  WHERE K.Id <= 10 AND K.day = greatest(PP.day0, day_of(K.t0)))  -- the first day that both touch
SELECT /*+ BROADCAST(K) */ DISTINCT K.Pos, K.Period, P.Licence
FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
WHERE passes_during(P.Part, K.Period, K.Pos)
