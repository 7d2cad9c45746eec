CREATE MATERIALIZED VIEW trades_running
COMMENT 'Each trade with what came before it'
TBLPROPERTIES (
  'engine' = 'reactive_state',
  'time' = 'ts',
  'keys' = 'sym',
  'sequence' = 'trade_id'
)
AS SELECT ts, sym,
          price - prev(price) AS change,
          mavg(price, 3) AS mean_of_3,
          cumsum(volume) AS volume_so_far
   FROM trades;
