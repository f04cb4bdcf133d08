-- Q3: where the vehicles from QueryLicences1 were at each of the instants from QueryInstants1.
SELECT DISTINCT LL.Licence, II.Instant, val(atinstant(C.Trip, II.Instant)) AS Pos
FROM dataMtrip C, QueryLicences1 LL, QueryInstants1 II
WHERE C.Licence = LL.Licence AND II.Instant BETWEEN begins(C.Trip) AND ends(C.Trip)
  AND present(C.Trip, II.Instant)
