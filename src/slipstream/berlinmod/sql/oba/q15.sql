-- Q15: which vehicles passed a point from QueryPoints1 during a period from QueryPeriods1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ DISTINCT K.Pos, PP.Id AS PeriodId, K.Licence
  FROM PeriodDays1 PP JOIN PiecesAtPoint K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin
  WHERE K.Id <= 10)
SELECT K.Pos, PP.Period, C.Licence
FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence JOIN QueryPeriods1 PP ON PP.Id = K.PeriodId
WHERE passes(atperiods(C.Trip, PP.Period), K.Pos)
