-- The table a dashboard reads: small buckets, so that a late flight makes one hour dirty and not a day.
-- Every measure merges. A flight that lands hours after its departure is added to the hour's partials, and the
-- hour's other flights are not read again. The median is a sketch for that reason: an exact one would need them.
-- The share is over flights that left; try_divide gives NULL in an hour in which none did.
CREATE MATERIALIZED VIEW departures_hourly
COMMENT 'Departures per hour, origin and carrier'
TBLPROPERTIES (
  'source.known_at' = 'known_at',
  'refresh.start_offset' = '7 days',
  'refresh.end_offset' = '1 hour',
  'refresh.schedule' = '*/15 * * * *'
)
AS SELECT
  time_bucket('1 hour', event_time) AS hour,
  origin,
  carrier,
  count(*) AS departures,
  count_if(cancelled) AS cancelled,
  avg(dep_delay) AS mean_delay,
  max(dep_delay) AS max_delay,
  try_divide(count_if(dep_delay > 15), count(dep_delay)) AS share_late,
  first(flight) AS first_flight,
  last(flight) AS last_flight,
  approx_percentile(dep_delay, 0.5) AS median_delay
FROM flights
GROUP BY time_bucket('1 hour', event_time), origin, carrier;
