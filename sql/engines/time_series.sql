CREATE MATERIALIZED VIEW trades_sliding
COMMENT 'Six minutes of trades, every three minutes'
TBLPROPERTIES ('engine' = 'time_series', 'sequence' = 'trade_id')
AS SELECT window.end AS time, sym,
          sum(volume) AS volume, max(price) AS high, last(price) AS close
   FROM trades
   GROUP BY window(ts, '6 minutes', '3 minutes'), sym;
