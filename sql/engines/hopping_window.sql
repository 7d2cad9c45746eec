CREATE MATERIALIZED VIEW open_orders_hopping
COMMENT 'Orders alive in six minutes, every three minutes'
TBLPROPERTIES (
  'engine' = 'hopping_window',
  'end' = 'done',
  'default_end' = '2024-03-04T09:45:00Z'
)
AS SELECT window.end AS time, sym,
          count(*) AS orders, sum(size) AS size
   FROM orders
   GROUP BY window(placed, '6 minutes', '3 minutes'), sym;
