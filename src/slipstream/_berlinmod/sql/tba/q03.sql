-- Q3: where the vehicles from QueryLicences1 were at each of the instants from QueryInstants1.
WITH Ours AS (SELECT Licence, Trip FROM dataMtrip WHERE Licence IN (SELECT Licence FROM QueryLicences1)),
Places AS (
  SELECT C.Licence, II.Instant, place_at(C.Trip, II.Instant) AS Place
  FROM Ours C JOIN QueryInstants1 II ON II.Instant BETWEEN begins(C.Trip) AND ends(C.Trip))
SELECT DISTINCT Licence, Instant, val(Place) AS Pos
FROM Places
WHERE Place IS NOT NULL
