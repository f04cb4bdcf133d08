-- Q14: which vehicles were within one of the regions from QueryRegions1 at one of the instants from QueryInstants1.
WITH Candidates AS (
  SELECT /*+ BROADCAST(II) */ K.Id AS RegionId, K.Region, II.Instant, K.Piece, K.tile
  FROM QueryInstants1 II JOIN PiecesAtRegion1 K ON K.day = day_of(II.Instant) AND II.Instant BETWEEN K.t0 AND K.t1)
SELECT /*+ BROADCAST(K) */ DISTINCT K.RegionId AS Region, K.Instant, P.Licence
FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
WHERE inside_at(P.Part, K.Instant, K.Region)
