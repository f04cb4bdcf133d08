-- Q9: the longest distance that a vehicle travelled during each of the periods from QueryPeriods; 0 if none moved.
-- A piece that lies within a period counts with the length the index knows; only those at its ends are cut.
WITH Spans AS (SELECT Id, Period, Period.begin[0] AS begin, Period.end[0] AS end FROM QueryPeriods),
Lengths AS (
  SELECT /*+ BROADCAST(PP) */ PP.Id, P.Licence, P.Metres
  FROM pieces P JOIN PeriodDays PP ON PP.day = day_of(P.t0) AND P.t0 >= PP.begin AND P.t1 <= PP.end
  WHERE P.Metres > 0
  UNION ALL
  SELECT /*+ BROADCAST(PP) */ PP.Id, P.Licence, travelled(atperiods(P.Part, PP.Period)) AS Metres
  FROM pieces P JOIN Spans PP ON P.t0 <= PP.end AND P.t1 >= PP.begin
  WHERE P.Metres > 0 AND (P.t0 < PP.begin OR P.t1 > PP.end)),
Distances AS (SELECT Id, Licence, sum(Metres) AS Dist FROM Lengths GROUP BY Id, Licence)
SELECT PP.Period, coalesce(D.Dist, 0D) AS Dist
FROM QueryPeriods PP LEFT JOIN (SELECT Id, max(Dist) AS Dist FROM Distances GROUP BY Id) D ON D.Id = PP.Id
