-- Q5: the least distance between places where a vehicle from QueryLicences1 and one from QueryLicences2 have been.
WITH Paths AS (
  SELECT Licence, trajectory(concat_all(collect_list(Trip))) AS Path
  FROM dataMtrip
  WHERE Licence IN (SELECT Licence FROM QueryLicences WHERE Id <= 20)
  GROUP BY Licence)
SELECT V1.Licence AS Licence1, V2.Licence AS Licence2, line_distance(V1.Path, V2.Path) AS Dist
FROM Paths V1, Paths V2, (SELECT DISTINCT Licence FROM QueryLicences1) LL1,
     (SELECT DISTINCT Licence FROM QueryLicences2) LL2
WHERE V1.Licence = LL1.Licence AND V2.Licence = LL2.Licence AND V1.Licence <> V2.Licence
