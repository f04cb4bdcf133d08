-- Q17: the points from QueryPoints that most different vehicles visited.
WITH Candidates AS (SELECT Licence, collect_set(Pos) AS Places FROM PiecesAtPoint GROUP BY Licence),
Passed AS (
  SELECT /*+ BROADCAST(K) */ C.Licence, inline(arrays_zip(K.Places, passes_each(C.Trip, K.Places))) AS (Pos, There)
  FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence),
PosCount AS (SELECT Pos, count(Licence) AS Hits FROM Passed WHERE There GROUP BY Pos)
SELECT Pos
FROM (SELECT *, max(Hits) OVER () AS Most FROM PosCount)
WHERE Hits = Most
