-- Q9: the longest distance that a vehicle travelled during each of the periods from QueryPeriods; 0 if none moved.
WITH Asked AS (SELECT collect_list(struct(Id, Period)) AS Spans FROM QueryPeriods),
Distances AS (
  SELECT inline(arrays_zip(A.Spans.Id, travelled_each(C.Trip, A.Spans.Period))) AS (Id, Dist)
  FROM dataScar C, Asked A)
SELECT PP.Period, coalesce(D.Dist, 0D) AS Dist
FROM QueryPeriods PP LEFT JOIN (SELECT Id, max(Dist) AS Dist FROM Distances GROUP BY Id) D ON D.Id = PP.Id
