-- Q7: which passenger cars reached the points from QueryPoints first of all passenger cars.
WITH Candidates AS (SELECT DISTINCT Pos, Licence FROM PiecesAtPoint),
Arrivals AS (
  SELECT K.Pos, C.Licence, inst(initial(at(C.Trip, K.Pos))) AS FirstTime
  FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence
  WHERE C.Type = 'passenger')
SELECT DISTINCT Pos, Licence
FROM (SELECT *, min(FirstTime) OVER (PARTITION BY Pos) AS Earliest FROM Arrivals WHERE FirstTime IS NOT NULL)
WHERE FirstTime = Earliest
