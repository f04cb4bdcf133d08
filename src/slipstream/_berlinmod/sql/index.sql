-- Index lookups that several queries share. A lookup gives candidates by box and time, the query decides exactly.

-- Pieces whose box holds a query point. `once` is true in one of the days a piece spans.
CREATE OR REPLACE TEMPORARY VIEW PiecesAtPoint AS
SELECT PP.Id, PP.Pos, X.Piece, X.tile, X.Licence, X.t0, X.t1, X.day, X.day = day_of(X.t0) AS once
FROM QueryPoints PP JOIN cells X ON X.cx = cell(PP.Pos.x) AND X.cy = cell(PP.Pos.y)
WHERE PP.Pos.x BETWEEN X.x0 - 1e-6D AND X.x1 + 1e-6D AND PP.Pos.y BETWEEN X.y0 - 1e-6D AND X.y1 + 1e-6D;

-- Query regions with their boxes, and the cells these reach over.
CREATE OR REPLACE TEMPORARY VIEW RegionBoxes AS
SELECT *, cell(x0) AS cx0, cell(y0) AS cy0, cell(x1) AS cx1, cell(y1) AS cy1
FROM (SELECT Id, Region, array_min(Region.x) AS x0, array_min(Region.y) AS y0, array_max(Region.x) AS x1,
             array_max(Region.y) AS y1
      FROM QueryRegions);

-- Pieces whose box meets the box of one of the first ten query regions, once per day.
CREATE OR REPLACE TEMPORARY VIEW PiecesAtRegion1 AS
SELECT RR.Id, RR.Region, X.Piece, X.tile, X.Licence, X.t0, X.t1, X.day
FROM (SELECT *, explode(sequence(cy0, cy1)) AS cy
      FROM (SELECT *, explode(sequence(cx0, cx1)) AS cx FROM RegionBoxes WHERE Id <= 10)) RR
JOIN cells X ON X.cx = RR.cx AND X.cy = RR.cy
WHERE X.x0 <= RR.x1 AND RR.x0 <= X.x1 AND X.y0 <= RR.y1 AND RR.y0 <= X.y1
  AND X.cx = greatest(cell(X.x0 - 5D), RR.cx0) AND X.cy = greatest(cell(X.y0 - 5D), RR.cy0);

-- Query periods, once for every day they touch, and the first ten of them.
CREATE OR REPLACE TEMPORARY VIEW PeriodDays AS
SELECT Id, Period, begin, end, day0, explode(sequence(day0, day1)) AS day
FROM (SELECT Id, Period, Period.begin[0] AS begin, Period.end[0] AS end, day_of(Period.begin[0]) AS day0,
             day_of(Period.end[0]) AS day1
      FROM QueryPeriods);

CREATE OR REPLACE TEMPORARY VIEW PeriodDays1 AS SELECT * FROM PeriodDays WHERE Id BETWEEN 1 AND 10
