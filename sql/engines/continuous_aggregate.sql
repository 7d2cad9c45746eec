CREATE MATERIALIZED VIEW trades_5m
COMMENT 'Five minutes of trades'
TBLPROPERTIES ('sequence' = 'trade_id')
AS SELECT window.start AS bucket, sym,
          count(*) AS trades, sum(volume) AS volume, last(price) AS close
   FROM trades
   GROUP BY window(ts, '5 minutes'), sym;
