-- Q7: which passenger cars reached the points from QueryPoints first of all passenger cars.
WITH Candidates AS (SELECT Licence, collect_set(Pos) AS Places FROM PiecesAtPoint GROUP BY Licence),
Visits AS (
  SELECT /*+ BROADCAST(K) */ C.Licence, inline(arrays_zip(K.Places, at_each(C.Trip, K.Places))) AS (Pos, Visit)
  FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence
  WHERE C.Type = 'passenger'),
Arrivals AS (SELECT Pos, Licence, get(Visit.t, 0) AS FirstTime FROM Visits WHERE size(Visit.t) > 0)
SELECT DISTINCT Pos, Licence
FROM (SELECT *, min(FirstTime) OVER (PARTITION BY Pos) AS Earliest FROM Arrivals)
WHERE FirstTime = Earliest
