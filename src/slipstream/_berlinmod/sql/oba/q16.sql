-- Q16: pairs of vehicles, from QueryLicences1 and QueryLicences2, both in a region from QueryRegions1 during a period
-- from QueryPeriods1, that do not meet each other there and then.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ DISTINCT K.Id AS RegionId, PP.Id AS PeriodId, K.Licence
  FROM PeriodDays1 PP JOIN PiecesAtRegion1 K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin
  WHERE K.Licence IN (SELECT Licence FROM QueryLicences WHERE Id <= 20)),
Visits AS (
  SELECT /*+ BROADCAST(K), BROADCAST(PP), BROADCAST(RR) */ K.RegionId, K.PeriodId, PP.Period, C.Licence,
         at_during(C.Trip, PP.Period, RR.Region) AS Part
  FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence JOIN QueryPeriods1 PP ON PP.Id = K.PeriodId
       JOIN QueryRegions1 RR ON RR.Id = K.RegionId),
Stays AS (SELECT * FROM Visits WHERE size(Part.t) > 0)
SELECT A.RegionId AS Region, A.Period, A.Licence AS Licence1, B.Licence AS Licence2
FROM (SELECT * FROM Stays WHERE Licence IN (SELECT Licence FROM QueryLicences1)) A
     JOIN (SELECT * FROM Stays WHERE Licence IN (SELECT Licence FROM QueryLicences2)) B
     ON A.RegionId = B.RegionId AND A.PeriodId = B.PeriodId AND A.Licence < B.Licence
WHERE isempty(intersection(A.Part, B.Part))
