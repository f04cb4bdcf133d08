-- Q8: how far the vehicles from QueryLicences1 travelled during the periods from QueryPeriods1.
WITH Ours AS (SELECT Licence, Trip FROM dataMtrip WHERE Licence IN (SELECT Licence FROM QueryLicences1))
SELECT T.Licence, PP.Period, sum(travelled_during(T.Trip, PP.Period)) AS Dist
FROM Ours T JOIN QueryPeriods1 PP ON begins(T.Trip) <= PP.Period.end[0] AND ends(T.Trip) >= PP.Period.begin[0]
GROUP BY T.Licence, PP.Period
HAVING Dist IS NOT NULL
