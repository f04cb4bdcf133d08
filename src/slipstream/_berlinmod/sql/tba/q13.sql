-- Q13: which vehicles travelled within one of the regions from QueryRegions1 during the periods from QueryPeriods1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ K.Id AS RegionId, K.Region, PP.Period, K.Piece, K.tile
  FROM PeriodDays1 PP JOIN PiecesAtRegion1 K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin
  WHERE K.day = greatest(PP.day0, day_of(K.t0)))  -- the first day that both touch
SELECT /*+ BROADCAST(K) */ DISTINCT K.RegionId AS Region, K.Period, P.Licence
FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
WHERE passes_during(P.Part, K.Period, K.Region)
