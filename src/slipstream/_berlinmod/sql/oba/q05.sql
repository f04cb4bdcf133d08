-- Q5: the least distance between places where a vehicle from QueryLicences1 and one from QueryLicences2 have been.
WITH Paths AS (
  SELECT Licence, trajectory(Trip) AS Path
  FROM dataScar
  WHERE Licence IN (SELECT Licence FROM QueryLicences WHERE Id <= 20))
SELECT /*+ BROADCAST(V2) */ V1.Licence AS Licence1, V2.Licence AS Licence2, line_distance(V1.Path, V2.Path) AS Dist
FROM (SELECT * FROM Paths WHERE Licence IN (SELECT Licence FROM QueryLicences1)) V1
     JOIN (SELECT * FROM Paths WHERE Licence IN (SELECT Licence FROM QueryLicences2)) V2 ON V1.Licence <> V2.Licence
