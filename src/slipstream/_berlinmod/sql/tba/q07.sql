-- Q7: which passenger cars reached the points from QueryPoints first of all passenger cars.
WITH Arrivals AS (
  SELECT /*+ BROADCAST(K), BROADCAST(C) */ K.Pos, K.Licence, inst(initial(at(P.Part, K.Pos))) AS FirstTime
  FROM PiecesAtPoint K JOIN dataMcar C ON C.Licence = K.Licence
       JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
  WHERE K.once AND C.Type = 'passenger')
SELECT DISTINCT Pos, Licence
FROM (SELECT *, min(FirstTime) OVER (PARTITION BY Pos) AS Earliest FROM Arrivals WHERE FirstTime IS NOT NULL)
WHERE FirstTime = Earliest
