CREATE MATERIALIZED VIEW trades_by_session
COMMENT 'Four-minute bars of two short sessions'
TBLPROPERTIES (
  'engine' = 'daily_time_series',
  'session_begin' = '09:30:00, 09:43:00',
  'session_end' = '09:40:00, 09:48:00',
  'sequence' = 'trade_id'
)
AS SELECT window.end AS time, sym,
          first(price) AS open, last(price) AS close, sum(volume) AS volume
   FROM trades
   GROUP BY window(ts, '4 minutes'), sym;
