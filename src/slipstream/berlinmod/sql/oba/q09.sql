-- Q9: the longest distance that a vehicle travelled during each of the periods from QueryPeriods; 0 if none moved.
WITH Distances AS (
  SELECT PP.Id, max(travelled(atperiods(C.Trip, PP.Period))) AS Dist
  FROM dataScar C, QueryPeriods PP
  GROUP BY PP.Id)
SELECT PP.Period, coalesce(D.Dist, 0D) AS Dist
FROM QueryPeriods PP LEFT JOIN Distances D ON D.Id = PP.Id
