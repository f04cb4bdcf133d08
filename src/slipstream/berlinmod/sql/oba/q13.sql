-- Q13: which vehicles travelled within one of the regions from QueryRegions1 during the periods from QueryPeriods1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ DISTINCT K.Id AS RegionId, PP.Id AS PeriodId, K.Licence
  FROM PeriodDays1 PP JOIN PiecesAtRegion1 K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin)
SELECT K.RegionId AS Region, PP.Period, C.Licence
FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence JOIN QueryPeriods1 PP ON PP.Id = K.PeriodId
     JOIN QueryRegions1 RR ON RR.Id = K.RegionId
WHERE passes(atperiods(C.Trip, PP.Period), RR.Region)
