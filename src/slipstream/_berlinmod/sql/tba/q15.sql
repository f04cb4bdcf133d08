-- Q15: which vehicles passed a point from QueryPoints1 during a period from QueryPeriods1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ DISTINCT K.Pos, PP.Id AS PeriodId, K.Licence, K.Piece, K.tile
  FROM PeriodDays1 PP JOIN PiecesAtPoint K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin
  WHERE K.Id <= 10)
SELECT /*+ BROADCAST(K), BROADCAST(PP) */ DISTINCT K.Pos, PP.Period, P.Licence
FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile JOIN QueryPeriods1 PP ON PP.Id = K.PeriodId
WHERE passes(atperiods(P.Part, PP.Period), K.Pos)
