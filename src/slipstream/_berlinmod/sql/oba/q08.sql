-- Q8: how far the vehicles from QueryLicences1 travelled during the periods from QueryPeriods1.
SELECT LL.Licence, PP.Period, travelled(atperiods(C.Trip, PP.Period)) AS Dist
FROM dataScar C, QueryPeriods1 PP, (SELECT DISTINCT Licence FROM QueryLicences1) LL
WHERE C.Licence = LL.Licence AND present(C.Trip, PP.Period)
