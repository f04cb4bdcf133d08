-- Q8: how far the vehicles from QueryLicences1 travelled during the periods from QueryPeriods1.
SELECT LL.Licence, PP.Period, sum(travelled(atperiods(T.Trip, PP.Period))) AS Dist
FROM dataMtrip T, QueryPeriods1 PP, (SELECT DISTINCT Licence FROM QueryLicences1) LL
WHERE T.Licence = LL.Licence AND begins(T.Trip) <= PP.Period.end[0] AND ends(T.Trip) >= PP.Period.begin[0]
  AND present(T.Trip, PP.Period)
GROUP BY LL.Licence, PP.Period
