CREATE MATERIALIZED VIEW bursts
COMMENT 'Trades with less than two minutes between them'
TBLPROPERTIES ('sequence' = 'trade_id')
AS SELECT session_window.start AS begun, sym,
          count(*) AS trades, sum(volume) AS volume
   FROM trades
   GROUP BY session_window(ts, '2 minutes'), sym;
