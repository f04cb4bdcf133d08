-- Q17: the points from QueryPoints that most different vehicles visited.
WITH PosCount AS (
  SELECT /*+ BROADCAST(K) */ K.Pos, size(collect_set(K.Licence)) AS Hits
  FROM PiecesAtPoint K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
  WHERE K.once AND passes(P.Part, K.Pos)
  GROUP BY K.Pos)
SELECT Pos
FROM (SELECT *, max(Hits) OVER () AS Most FROM PosCount)
WHERE Hits = Most
