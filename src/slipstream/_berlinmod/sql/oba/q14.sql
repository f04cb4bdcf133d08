-- Q14: which vehicles were within one of the regions from QueryRegions1 at one of the instants from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ DISTINCT K.Id AS RegionId, II.Instant, K.Licence
  FROM QueryInstants1 II JOIN PiecesAtRegion1 K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1),
Places AS (
  SELECT /*+ BROADCAST(K) */ C.Licence, inline(arrays_zip(Asked.RegionId, Asked.Instant, atinstant_each(C.Trip, Asked.Instant)))
         AS (RegionId, Instant, Place)
  FROM (SELECT Licence, collect_list(struct(RegionId, Instant)) AS Asked FROM Candidates GROUP BY Licence) K
       JOIN dataScar C ON C.Licence = K.Licence)
SELECT P.RegionId AS Region, P.Instant, P.Licence
FROM Places P JOIN QueryRegions1 RR ON RR.Id = P.RegionId
WHERE inside(val(P.Place), RR.Region)
