-- Q6: pairs of trucks that have ever been within 10 m of each other.
WITH Trucks AS (
  SELECT X.* FROM cells X JOIN dataScar C ON C.Licence = X.Licence WHERE C.Type = 'truck'),
Candidates AS (
  SELECT DISTINCT A.Licence AS Licence1, B.Licence AS Licence2
  FROM Trucks A JOIN Trucks B ON A.cx = B.cx AND A.cy = B.cy AND A.day = B.day
  WHERE A.Licence < B.Licence AND A.t0 <= B.t1 AND B.t0 <= A.t1
    AND A.x0 <= B.x1 + 10D AND B.x0 <= A.x1 + 10D AND A.y0 <= B.y1 + 10D AND B.y0 <= A.y1 + 10D
    -- a pair of pieces counts once: in the first cell and day that they share
    AND A.cx = cell(greatest(A.x0, B.x0) - 5D) AND A.cy = cell(greatest(A.y0, B.y0) - 5D)
    AND A.day = day_of(greatest(A.t0, B.t0)))
SELECT V1.Licence AS Licence1, V2.Licence AS Licence2
FROM Candidates K JOIN dataScar V1 ON V1.Licence = K.Licence1 JOIN dataScar V2 ON V2.Licence = K.Licence2
WHERE sometimes(at_most(distance(V1.Trip, V2.Trip), 10.0))
