-- Q4: which vehicles passed the points from QueryPoints.
WITH Candidates AS (SELECT Licence, collect_set(Pos) AS Places FROM PiecesAtPoint GROUP BY Licence),
Passed AS (
  SELECT /*+ BROADCAST(K) */ C.Licence, inline(arrays_zip(K.Places, passes_each(C.Trip, K.Places))) AS (Pos, There)
  FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence)
SELECT Pos, Licence
FROM Passed
WHERE There
