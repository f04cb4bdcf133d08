-- Q10: when and where the vehicles from QueryLicences1 met others (within 3 m), and which.
WITH Ours AS (SELECT X.* FROM cells X WHERE X.Licence IN (SELECT Licence FROM QueryLicences1)),
Candidates AS (
  SELECT /*+ BROADCAST(A) */ A.Licence AS Licence1, B.Licence AS Licence2, greatest(A.t0, B.t0) AS t0,
         least(A.t1, B.t1) AS t1
  FROM Ours A JOIN cells B ON A.cx = B.cx AND A.cy = B.cy AND A.day = B.day
  WHERE A.Licence <> B.Licence AND A.t0 <= B.t1 AND B.t0 <= A.t1
    AND A.x0 <= B.x1 + 3D AND B.x0 <= A.x1 + 3D AND A.y0 <= B.y1 + 3D AND B.y0 <= A.y1 + 3D
    -- a pair of pieces counts once: in the first cell and day that they share
    AND A.cx = cell(greatest(A.x0, B.x0) - 5D) AND A.cy = cell(greatest(A.y0, B.y0) - 5D)
    AND A.day = day_of(greatest(A.t0, B.t0))),
-- when the index has both near each other; each history is cut to those times, once for all its partners
Windows AS (
  SELECT Licence1, Licence2, united(collect_list(struct(t0, t1))) AS Times FROM Candidates GROUP BY Licence1, Licence2),
V1 AS (
  SELECT /*+ BROADCAST(K) */ Licence1, inline(arrays_zip(Met.Licence2, atperiods_each(C.Trip, Met.Times))) AS (Licence2, Part)
  FROM (SELECT Licence1, collect_list(struct(Licence2, Times)) AS Met FROM Windows GROUP BY Licence1) K
       JOIN dataScar C ON C.Licence = K.Licence1),
V2 AS (
  SELECT /*+ BROADCAST(K) */ Licence2, inline(arrays_zip(Met.Licence1, atperiods_each(C.Trip, Met.Times))) AS (Licence1, Part)
  FROM (SELECT Licence2, collect_list(struct(Licence1, Times)) AS Met FROM Windows GROUP BY Licence2) K
       JOIN dataScar C ON C.Licence = K.Licence2),
Meetings AS (
  SELECT V1.Licence1, V1.Licence2, while_near(V1.Part, V2.Part, 3D) AS Part
  FROM V1 JOIN V2 ON V1.Licence1 = V2.Licence1 AND V1.Licence2 = V2.Licence2)
SELECT Licence1 AS Licence, Licence2 AS OtherLicence, Part AS Pos
FROM Meetings
WHERE size(Part.t) > 0
