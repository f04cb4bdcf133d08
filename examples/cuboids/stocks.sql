-- Seven stocks, the latest ten prices of each, and the cluster around a W.
-- slipstream cuboid ticks --out ticks
-- slipstream cuboid run --input ticks --schema examples/cuboids/stocks.sql --out stocks
CREATE CUBOID stock (stock_id BIGINT KEY, price AST(10), time BIGINT);

CREATE PATTERN w AS (9, 3, 6, 3, 9);

CREATE QUERY members AS
SELECT stock_id, ticks(price) AS tick, correlation(price, w) AS r
FROM stock
WHERE correlation(price, w) > 0.95;
