-- Months are large and get a few rows a day, which is where merging pays: a day's flights are added to the month.
-- Cancelled flights are left out before anything is aggregated (WHERE), diverted ones have no delay on arrival and
-- leave the mean alone, and destinations served less than once a week are left out of the result (HAVING); their
-- partials are kept, so such a destination appears as soon as it has flights enough.
CREATE MATERIALIZED VIEW destinations_monthly
COMMENT 'Flights per New York month and destination served at least weekly'
TBLPROPERTIES (
  'source.known_at' = 'known_at',
  'refresh.start_offset' = '6 months',
  'refresh.end_offset' = '1 day',
  'refresh.schedule' = '30 5 * * *'
)
AS SELECT
  time_bucket('1 month', event_time, 'America/New_York') AS month,
  dest,
  count(*) AS flights,
  count(*) FILTER (WHERE origin = 'JFK') AS flights_from_jfk,
  avg(arr_delay) AS mean_arrival_delay,
  avg(arr_delay) FILTER (WHERE dep_delay > 60) AS mean_arrival_delay_when_late,
  try_divide(60 * sum(distance), sum(air_time)) AS miles_per_hour
FROM flights
WHERE NOT cancelled
GROUP BY time_bucket('1 month', event_time, 'America/New_York'), dest
HAVING count(*) >= 4;
