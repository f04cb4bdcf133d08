-- Q8: how far the vehicles from QueryLicences1 travelled during the periods from QueryPeriods1.
WITH Asked AS (SELECT collect_set(Period) AS Periods FROM QueryPeriods1),
Parts AS (
  SELECT C.Licence, inline(arrays_zip(A.Periods, atperiods_each(C.Trip, A.Periods))) AS (Period, Part)
  FROM (SELECT * FROM dataScar WHERE Licence IN (SELECT Licence FROM QueryLicences1)) C, Asked A)
SELECT Licence, Period, travelled(Part) AS Dist
FROM Parts
WHERE size(Part.t) > 0
