-- Q3: where the vehicles from QueryLicences1 were at each of the instants from QueryInstants1.
WITH Asked AS (SELECT collect_set(Instant) AS Instants FROM QueryInstants1),
Places AS (
  SELECT C.Licence, inline(arrays_zip(A.Instants, atinstant_each(C.Trip, A.Instants))) AS (Instant, Place)
  FROM (SELECT * FROM dataScar WHERE Licence IN (SELECT Licence FROM QueryLicences1)) C, Asked A)
SELECT Licence, Instant, val(Place) AS Pos
FROM Places
WHERE Place IS NOT NULL
