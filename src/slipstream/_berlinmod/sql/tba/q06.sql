-- Q6: pairs of trucks that have ever been within 10 m of each other.
WITH Trucks AS (SELECT * FROM cells WHERE Licence IN (SELECT Licence FROM dataMcar WHERE Type = 'truck')),
Candidates AS (
  SELECT A.Piece AS Piece1, A.tile AS tile1, B.Piece AS Piece2, B.tile AS tile2
  FROM Trucks A JOIN Trucks B ON A.cx = B.cx AND A.cy = B.cy AND A.day = B.day
  WHERE A.Licence < B.Licence AND A.t0 <= B.t1 AND B.t0 <= A.t1
    AND A.x0 <= B.x1 + 10D AND B.x0 <= A.x1 + 10D AND A.y0 <= B.y1 + 10D AND B.y0 <= A.y1 + 10D
    -- a pair of pieces counts once: in the first cell and day that they share
    AND A.cx = cell(greatest(A.x0, B.x0) - 5D) AND A.cy = cell(greatest(A.y0, B.y0) - 5D)
    AND A.day = day_of(greatest(A.t0, B.t0))),
First AS (
  SELECT /*+ BROADCAST(K) */ P.Licence, P.Part, K.Piece2, K.tile2
  FROM Candidates K JOIN pieces P ON P.Piece = K.Piece1 AND P.tile = K.tile1)
SELECT /*+ BROADCAST(A) */ DISTINCT A.Licence AS Licence1, B.Licence AS Licence2
FROM First A JOIN pieces B ON B.Piece = A.Piece2 AND B.tile = A.tile2
WHERE ever_near(A.Part, B.Part, 10D)
