CREATE MATERIALIZED VIEW trades_in_panes
COMMENT 'Five minutes of trades, closed a minute late'
TBLPROPERTIES ('engine' = 'event_time_window', 'lag' = '1 minute')
AS SELECT window.end AS time, sym,
          count(*) AS trades, sum(volume) AS volume
   FROM trades
   GROUP BY window(ts, '5 minutes'), sym;
