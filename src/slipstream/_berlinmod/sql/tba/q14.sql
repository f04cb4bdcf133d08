-- Q14: which vehicles were within one of the regions from QueryRegions1 at one of the instants from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ DISTINCT K.Id AS RegionId, II.Instant, K.Licence, K.Piece, K.tile
  FROM QueryInstants1 II JOIN PiecesAtRegion1 K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1)
SELECT /*+ BROADCAST(K), BROADCAST(RR) */ DISTINCT K.RegionId AS Region, K.Instant, P.Licence
FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile JOIN QueryRegions1 RR ON RR.Id = K.RegionId
WHERE inside(val(atinstant(P.Part, K.Instant)), RR.Region)
