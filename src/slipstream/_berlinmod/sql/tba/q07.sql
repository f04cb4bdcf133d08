-- Q7: which passenger cars reached the points from QueryPoints first of all passenger cars.
WITH Candidates AS (
  SELECT Pos, Licence, Piece, tile
  FROM PiecesAtPoint
  WHERE once AND Licence IN (SELECT Licence FROM dataMcar WHERE Type = 'passenger')),
Arrivals AS (
  SELECT /*+ BROADCAST(K) */ K.Pos, K.Licence, inst(initial(at(P.Part, K.Pos))) AS FirstTime
  FROM Candidates K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile)
SELECT DISTINCT Pos, Licence
FROM (SELECT *, min(FirstTime) OVER (PARTITION BY Pos) AS Earliest FROM Arrivals)
WHERE FirstTime = Earliest
