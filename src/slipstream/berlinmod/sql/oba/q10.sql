-- Q10: when and where the vehicles from QueryLicences1 met others (within 3 m), and which.
WITH Ours AS (SELECT X.* FROM cells X WHERE X.Licence IN (SELECT Licence FROM QueryLicences1)),
Candidates AS (
  SELECT /*+ BROADCAST(A) */ DISTINCT A.Licence AS Licence1, B.Licence AS Licence2
  FROM Ours A JOIN cells B ON A.cx = B.cx AND A.cy = B.cy AND A.day = B.day
  WHERE A.Licence <> B.Licence AND A.t0 <= B.t1 AND B.t0 <= A.t1
    AND A.x0 <= B.x1 + 3D AND B.x0 <= A.x1 + 3D AND A.y0 <= B.y1 + 3D AND B.y0 <= A.y1 + 3D
    -- a pair of pieces counts once: in the first cell and day that they share
    AND A.cx = cell(greatest(A.x0, B.x0) - 5D) AND A.cy = cell(greatest(A.y0, B.y0) - 5D)
    AND A.day = day_of(greatest(A.t0, B.t0))),
Meetings AS (
  SELECT V1.Licence AS Licence, V2.Licence AS OtherLicence, V1.Trip,
         deftime(at_bool(at_most(distance(V1.Trip, V2.Trip), 3.0), true)) AS Times
  FROM Candidates K JOIN dataScar V1 ON V1.Licence = K.Licence1 JOIN dataScar V2 ON V2.Licence = K.Licence2)
SELECT Licence, OtherLicence, atperiods(Trip, Times) AS Pos
FROM Meetings
WHERE NOT isempty(Times)
