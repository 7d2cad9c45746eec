CREATE MATERIALIZED VIEW open_orders
COMMENT 'Open orders, one row for each change'
TBLPROPERTIES (
  'engine' = 'snapshot_window',
  'time' = 'placed',
  'time_kind' = 'datetime',
  'end' = 'done',
  'label' = 'since'
)
AS SELECT sym, count(*) AS orders, sum(size) AS size
   FROM orders
   GROUP BY sym;
