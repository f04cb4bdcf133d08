-- Q16: pairs of vehicles, from QueryLicences1 and QueryLicences2, both in a region from QueryRegions1 during a period
-- from QueryPeriods1, that do not meet each other there and then.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ K.Id AS RegionId, K.Region, PP.Id AS PeriodId, PP.Period, K.Piece, K.tile
  FROM PeriodDays1 PP JOIN PiecesAtRegion1 K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin
  WHERE K.Licence IN (SELECT Licence FROM QueryLicences WHERE Id <= 20)
    AND K.day = greatest(PP.day0, day_of(K.t0))),  -- the first day that both touch
Visits AS (
  SELECT /*+ BROADCAST(K) */ K.RegionId, K.PeriodId, K.Period, C.Licence, at_during(C.Part, K.Period, K.Region) AS Part
  FROM Candidates K JOIN pieces C ON C.Piece = K.Piece AND C.tile = K.tile),
Stays AS (
  SELECT RegionId, PeriodId, Licence, first(Period) AS Period, concat_all(collect_list(Part)) AS Part
  FROM Visits
  WHERE size(Part.t) > 0
  GROUP BY RegionId, PeriodId, Licence)
SELECT /*+ BROADCAST(B) */ A.RegionId AS Region, A.Period, A.Licence AS Licence1, B.Licence AS Licence2
FROM (SELECT * FROM Stays WHERE Licence IN (SELECT Licence FROM QueryLicences1)) A
     JOIN (SELECT * FROM Stays WHERE Licence IN (SELECT Licence FROM QueryLicences2)) B
     ON A.RegionId = B.RegionId AND A.PeriodId = B.PeriodId AND A.Licence < B.Licence
WHERE isempty(intersection(A.Part, B.Part))
