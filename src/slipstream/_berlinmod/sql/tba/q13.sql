-- Q13: which vehicles travelled within one of the regions from QueryRegions1 during the periods from QueryPeriods1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ DISTINCT K.Id AS RegionId, PP.Id AS PeriodId, K.Licence, K.Piece, K.tile
  FROM PeriodDays1 PP JOIN PiecesAtRegion1 K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin)
SELECT /*+ BROADCAST(K), BROADCAST(PP), BROADCAST(RR) */ DISTINCT K.RegionId AS Region, PP.Period, P.Licence
FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
     JOIN QueryPeriods1 PP ON PP.Id = K.PeriodId JOIN QueryRegions1 RR ON RR.Id = K.RegionId
WHERE passes(atperiods(P.Part, PP.Period), RR.Region)
