-- Q10: when and where the vehicles from QueryLicences1 met others (within 3 m), and which.
WITH Ours AS (SELECT X.* FROM cells X WHERE X.Licence IN (SELECT Licence FROM QueryLicences1)),
Candidates AS (
  SELECT /*+ BROADCAST(A) */ A.Piece AS Piece1, A.tile AS tile1, B.Piece AS Piece2, B.tile AS tile2
  FROM Ours A JOIN cells B ON A.cx = B.cx AND A.cy = B.cy AND A.day = B.day
  WHERE A.Licence <> B.Licence AND A.t0 <= B.t1 AND B.t0 <= A.t1
    AND A.x0 <= B.x1 + 3D AND B.x0 <= A.x1 + 3D AND A.y0 <= B.y1 + 3D AND B.y0 <= A.y1 + 3D
    -- a pair of pieces counts once: in the first cell and day that they share
    AND A.cx = cell(greatest(A.x0, B.x0) - 5D) AND A.cy = cell(greatest(A.y0, B.y0) - 5D)
    AND A.day = day_of(greatest(A.t0, B.t0))),
First AS (
  SELECT /*+ BROADCAST(K) */ P.Licence, P.Part, K.Piece2, K.tile2
  FROM Candidates K JOIN pieces P ON P.Piece = K.Piece1 AND P.tile = K.tile1),
Meetings AS (
  SELECT /*+ BROADCAST(A) */ A.Licence, B.Licence AS OtherLicence, while_near(A.Part, B.Part, 3D) AS Part
  FROM First A JOIN pieces B ON B.Piece = A.Piece2 AND B.tile = A.tile2)
SELECT Licence, OtherLicence, concat_all(collect_list(Part)) AS Pos
FROM Meetings
WHERE size(Part.t) > 0
GROUP BY Licence, OtherLicence
