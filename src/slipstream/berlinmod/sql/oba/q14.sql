-- Q14: which vehicles were within one of the regions from QueryRegions1 at one of the instants from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ DISTINCT K.Id AS RegionId, II.Instant, K.Licence
  FROM QueryInstants1 II JOIN PiecesAtRegion1 K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1)
SELECT K.RegionId AS Region, K.Instant, C.Licence
FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence JOIN QueryRegions1 RR ON RR.Id = K.RegionId
WHERE inside(val(atinstant(C.Trip, K.Instant)), RR.Region)
