CREATE MATERIALIZED VIEW last_three
COMMENT 'Three consecutive trades'
TBLPROPERTIES (
  'engine' = 'count_window',
  'time' = 'ts',
  'time_kind' = 'datetime',
  'count' = '3',
  'sequence' = 'trade_id'
)
AS SELECT sym, avg(price) AS mean, sum(volume) AS volume
   FROM trades
   GROUP BY sym;
