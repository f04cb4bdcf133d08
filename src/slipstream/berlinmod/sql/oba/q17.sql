-- Q17: the points from QueryPoints that most different vehicles visited.
WITH Candidates AS (SELECT DISTINCT Pos, Licence FROM PiecesAtPoint),
PosCount AS (
  SELECT K.Pos, count(C.Licence) AS Hits
  FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence
  WHERE passes(C.Trip, K.Pos)
  GROUP BY K.Pos)
SELECT Pos
FROM (SELECT *, max(Hits) OVER () AS Most FROM PosCount)
WHERE Hits = Most
