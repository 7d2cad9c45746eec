-- Days as the airports live them: they begin at midnight in New York, so 10 March 2013 has 23 hours and
-- 3 November has 25.
-- How many aircraft a day saw cannot be merged from parts (the same one flies twice), so dirty days are computed
-- again from their flights; the plan says so. approx_count_distinct(tailnum) would merge.
CREATE MATERIALIZED VIEW departures_daily
COMMENT 'Departures per New York day and origin'
TBLPROPERTIES (
  'source.known_at' = 'known_at',
  'refresh.start_offset' = '30 days',
  'refresh.end_offset' = '1 hour',
  'refresh.schedule' = '5 * * * *'
)
AS SELECT
  time_bucket('1 day', event_time, 'America/New_York') AS day,
  origin,
  count(*) AS departures,
  count_if(cancelled) AS cancelled,
  avg(dep_delay) AS mean_delay,
  stddev_samp(dep_delay) AS spread_of_delay,
  max_by(flight_id, dep_delay) AS most_delayed,
  count(DISTINCT tailnum) AS aircraft,
  min(event_time) AS first_departure,
  max(event_time) AS last_departure
FROM flights
GROUP BY time_bucket('1 day', event_time, 'America/New_York'), origin;
