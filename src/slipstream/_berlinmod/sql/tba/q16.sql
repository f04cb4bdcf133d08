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
  GROUP BY RegionId, PeriodId, Licence),
-- not a join of stays with themselves: Spark plans no list twice that it may compute only once
Together AS (
  SELECT RegionId, first(Period) AS Period, collect_list(struct(Licence, Part)) AS Everyone
  FROM Stays
  GROUP BY RegionId, PeriodId),
Pairs AS (
  SELECT RegionId, Period, A.Licence AS Licence1, B.Licence AS Licence2, A.Part AS Part1, B.Part AS Part2
  FROM Together LATERAL VIEW explode(Everyone) AS A LATERAL VIEW explode(Everyone) AS B
  WHERE A.Licence < B.Licence)
SELECT RegionId AS Region, Period, Licence1, Licence2
FROM Pairs
WHERE Licence1 IN (SELECT Licence FROM QueryLicences1) AND Licence2 IN (SELECT Licence FROM QueryLicences2)
  AND isempty(intersection(Part1, Part2))
