-- Q13: which vehicles travelled within one of the regions from QueryRegions1 during the periods from QueryPeriods1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ DISTINCT K.Id AS RegionId, PP.Id AS PeriodId, K.Licence
  FROM PeriodDays1 PP JOIN PiecesAtRegion1 K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin),
Cut AS (
  SELECT /*+ BROADCAST(K) */ C.Licence, inline(arrays_zip(Asked.Id, Asked.Period, atperiods_each(C.Trip, Asked.Period)))
         AS (PeriodId, Period, Part)
  FROM (SELECT K.Licence, collect_set(struct(PP.Id, PP.Period)) AS Asked
        FROM Candidates K JOIN QueryPeriods1 PP ON PP.Id = K.PeriodId GROUP BY K.Licence) K
       JOIN dataScar C ON C.Licence = K.Licence)
SELECT K.RegionId AS Region, C.Period, C.Licence
FROM Candidates K JOIN Cut C ON C.Licence = K.Licence AND C.PeriodId = K.PeriodId
     JOIN QueryRegions1 RR ON RR.Id = K.RegionId
WHERE passes(C.Part, RR.Region)
