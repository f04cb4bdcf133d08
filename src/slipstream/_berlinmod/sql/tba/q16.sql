-- Q16: pairs of vehicles, from QueryLicences1 and QueryLicences2, both in a region from QueryRegions1 during a period
-- from QueryPeriods1, that do not meet each other there and then.
WITH Candidates AS (
  SELECT /*+ BROADCAST(PP) */ DISTINCT K.Id AS RegionId, PP.Id AS PeriodId, K.Licence, K.Piece, K.tile
  FROM PeriodDays1 PP JOIN PiecesAtRegion1 K ON K.day = PP.day AND K.t0 <= PP.end AND K.t1 >= PP.begin
  WHERE K.Licence IN (SELECT Licence FROM QueryLicences WHERE Id <= 20)),
Visits AS (
  SELECT * FROM (
    SELECT /*+ BROADCAST(K), BROADCAST(PP), BROADCAST(RR) */ K.RegionId, K.PeriodId, C.Licence, at(atperiods(C.Part, PP.Period), RR.Region) AS Part
    FROM Candidates K JOIN pieces C ON C.Piece = K.Piece AND C.tile = K.tile JOIN QueryPeriods1 PP ON PP.Id = K.PeriodId
         JOIN QueryRegions1 RR ON RR.Id = K.RegionId)
  WHERE NOT isempty(Part)),
Pairs AS (
  SELECT DISTINCT A.RegionId, A.PeriodId, A.Licence AS Licence1, B.Licence AS Licence2
  FROM Visits A JOIN Visits B ON A.RegionId = B.RegionId AND A.PeriodId = B.PeriodId AND A.Licence < B.Licence
  WHERE A.Licence IN (SELECT Licence FROM QueryLicences1) AND B.Licence IN (SELECT Licence FROM QueryLicences2)),
Met AS (
  SELECT A.RegionId, A.PeriodId, A.Licence AS Licence1, B.Licence AS Licence2
  FROM Visits A JOIN Visits B ON A.RegionId = B.RegionId AND A.PeriodId = B.PeriodId AND A.Licence < B.Licence
       AND begins(A.Part) <= ends(B.Part) AND begins(B.Part) <= ends(A.Part)
  WHERE NOT isempty(intersection(A.Part, B.Part)))
SELECT P.RegionId AS Region, PP.Period, P.Licence1, P.Licence2
FROM (SELECT * FROM Pairs EXCEPT SELECT * FROM Met) P JOIN QueryPeriods1 PP ON PP.Id = P.PeriodId
