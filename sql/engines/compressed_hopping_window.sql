CREATE MATERIALIZED VIEW open_orders_compressed
COMMENT 'Orders alive in six minutes, every three minutes, one row for each change'
TBLPROPERTIES ('engine' = 'compressed_hopping_window', 'end' = 'done')
AS SELECT window.start AS time, sym,
          count(*) AS orders, sum(size) AS size
   FROM orders
   GROUP BY window(placed, '6 minutes', '3 minutes'), sym;
