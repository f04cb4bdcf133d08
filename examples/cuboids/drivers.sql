-- Drivers on the expressways of a toll engine: speeds like a W, and hard braking.
-- slipstream toll RUN --out tolls --queries examples/cuboids/drivers.sql
CREATE PATTERN w AS (9, 3, 6, 3, 9);

CREATE QUERY drivers AS
SELECT vid, time, xway, ticks(speed) AS tick, correlation(speed, w) AS r
FROM car
WHERE correlation(speed, w) > 0.95;

CREATE QUERY braking AS
SELECT vid, time, xway, segment[0] AS segment, delta(speed) AS change
FROM car
WHERE delta(speed) < -30;
