-- Q4: which vehicles passed the points from QueryPoints.
WITH Candidates AS (SELECT DISTINCT Pos, Licence FROM PiecesAtPoint)
SELECT K.Pos, C.Licence
FROM Candidates K JOIN dataScar C ON C.Licence = K.Licence
WHERE passes(C.Trip, K.Pos)
