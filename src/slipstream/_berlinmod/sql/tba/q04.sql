-- Q4: which vehicles passed the points from QueryPoints.
SELECT /*+ BROADCAST(K) */ DISTINCT K.Pos, K.Licence
FROM PiecesAtPoint K JOIN pieces P ON P.Piece = K.Piece AND P.tile = K.tile
WHERE K.once AND passes(P.Part, K.Pos)
