"""What users read about each engine: what it is for, its parameters, and one example in both forms.

The pages in ``docs/engines`` and the command ``materializer engines`` show these texts; tests hold the parameters against
what the engines read, and the two forms of an example against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an engine.

    Args:
        name: As it is written as a property in SQL, and as an argument in Python.
        default: What it is when it is left out; ``required`` where it may not be.
        meaning: What it does, and within which limits.
        original: What the product that the engine follows calls it; empty when it has none.
    """

    name: str
    default: str
    meaning: str
    original: str = ""


@dataclass(frozen=True, slots=True)
class Guide:
    """What users read about one engine.

    Args:
        name: Name of the engine.
        title: What it computes, in a few words.
        purpose: What it is for, in one paragraph.
        follows: The product whose windows these are.
        parameters: All its own parameters.
        elsewhere: (name in that product, what takes its place here), for what is no parameter here.
        sql: An example as one SQL statement.
        python: The same definition as a call of ``Materializer.define``, the object named ``m``.
    """

    name: str
    title: str
    purpose: str
    follows: str
    parameters: tuple[Parameter, ...]
    elsewhere: tuple[tuple[str, str], ...]
    sql: str
    python: str


COMMON: Final = (
    Parameter(
        "lateness",
        "recompute",
        "recompute: rows count whenever they come, and what they touch is computed again; strict: a row that comes too late "
        "goes to the quarantine and counts nowhere; delay: the same, for time series with accepted_delay; session windows "
        "refuse delay, and events that last take recompute only",
    ),
    Parameter("sequence", "none", "column that orders rows of equal time, and rows of one commit"),
    Parameter(
        "slice",
        "1 hour",
        "length of the pieces in which the output is replaced, by the start of windows; changes no value; 30 days for "
        "dates, 3,600,000 ticks for bare numbers",
    ),
    Parameter(
        "label", "time", "name of the output column with the time of a result; in SQL the alias of window.start or .end"
    ),
    Parameter(
        "output_handler",
        "none",
        "name of a Python function that is given what a refresh published, at least once; see output handlers in the Python "
        "page",
        "outputHandler",
    ),
    Parameter(
        "msg_as_table",
        "true",
        "whether the output handler is given a Spark frame; false: a tuple of lists, one for each column",
        "msgAsTable",
    ),
)
"""Parameters of every engine."""

AS_OF: Final = (
    "refresh --as-of T gives the engine a clock: windows that end by T close, whether or not a later row has come; the clock "
    "never goes back"
)
"""What the clock of a refresh does."""

_OF_DOLPHINDB: Final = "the time-series engines of DolphinDB"
_OF_STREAMINSIGHT: Final = "StreamInsight"

_TIME_KIND: Final = Parameter(
    "time_kind",
    "by the time column",
    "what a whole number counts as a length, and the shortest step of time: date, datetime, timestamp, time, second or minute; "
    "nanotimestamp, nanotime, int, long, short, bigint or smallint for integer columns. Left out: days of dates, milliseconds "
    "of timestamps, ticks of integers",
)
_ALIGNED_KIND: Final = Parameter(
    "time_kind",
    "by the time column",
    "what a whole number counts as a length, and which table of alignments is used: date, datetime, timestamp, time, second or "
    "minute; nanotimestamp, nanotime or month for integer columns. Left out: date for dates, timestamp (milliseconds) for "
    "timestamps, by time.resolution for integers",
    "the type of timeColumn",
)
_DAILY_KIND: Final = Parameter(
    "time_kind",
    "by the time column",
    "what a whole number counts as a length: date, datetime, timestamp, time, second or minute; nanotimestamp or nanotime for "
    "integer columns, which need it or time.resolution",
    "the type of timeColumn",
)
_STREAMING_ONLY: Final = "taken and ignored: it never changes a result"
_THREADS: Final = Parameter("parallelism", "1", f"a whole number from 1 to 63; {_STREAMING_ONLY}", "parallelism")
_IGNORED: Final = tuple(
    Parameter(name, "none", _STREAMING_ONLY, original)
    for name, original in (
        ("garbage_size", "garbageSize"),
        ("raft_group", "raftGroup"),
        ("snapshot_dir", "snapshotDir"),
        ("snapshot_interval_in_msg_count", "snapshotIntervalInMsgCount"),
    )
)
_CLOSING: Final = (
    Parameter(
        "closed",
        "left",
        "left: windows are [start, end), and a row at the end closes them; right: (start, end], and only a later row does",
        "closed",
    ),
    Parameter(
        "fill",
        "none",
        "what stands in closed windows without rows, from the first window of a key that has rows: none, null, ffill (the "
        "last result), or a constant; one for all measures, or a list with one for each (which cannot hold none)",
        "fill",
    ),
    Parameter(
        "update_time",
        "none",
        "when given, open windows that have rows are shown with is_final = false; step must be a multiple of it, or it is 0; "
        "excludes use_system_time, accepted_delay and force_trigger_time",
        "updateTime",
    ),
    Parameter(
        "accepted_delay",
        "0",
        "windows close this long after their end; at most window_size; excludes update_time and force_trigger_time",
        "acceptedDelay",
    ),
    Parameter(
        "force_trigger_time",
        "none",
        "rows of any key close windows this long after their end; excludes update_time, accepted_delay and use_system_time",
        "forceTriggerTime",
    ),
    Parameter(
        "key_purge_freq_in_sec",
        "-1",
        "taken and ignored: silent keys cost nothing; needs force_trigger_time and excludes fill, as there",
        "keyPurgeFreqInSec",
    ),
    Parameter(
        "output_elapsed_microseconds",
        "false",
        "only false: computing times differ from run to run, and a refresh reports its own",
        "outputElapsedMicroseconds",
    ),
    _THREADS,
    *_IGNORED,
)
_DOLPHINDB_ELSEWHERE: Final = (
    ("name", "the name of the aggregate"),
    ("timeColumn", "the column in window(…), or time"),
    ("keyColumn", "the keys: one, several or none"),
    ("metrics", "the measures"),
    ("dummyTable", "the source itself gives the types"),
    ("a filter in the handler", "WHERE"),
    ("outputTable", "the output of the aggregate, which others may read as their source"),
)

_TIME_SERIES: Final = Guide(
    name="time_series",
    title="windows of one or several sizes that end together on one grid",
    purpose=(
        "Sliding or tumbling windows over event time, closed per key by the key's own later rows. The grid hangs on the "
        "first row: it is aligned down to a round time that depends on the step, and all keys share it."
    ),
    follows=f"{_OF_DOLPHINDB} (createTimeSeriesEngine)",
    parameters=(
        Parameter(
            "window_size",
            "required",
            "length of a window, a multiple of step; several lengths, separated by commas, give windows that end together, "
            "each measure belonging to one of them",
            "windowSize",
        ),
        Parameter(
            "step",
            "required",
            "distance between the ends of windows; window(time, size) in SQL makes it the size",
            "step",
        ),
        _ALIGNED_KIND,
        Parameter(
            "use_window_start_time",
            "false",
            "whether results are labelled with the start of their window; must be false with several sizes; in SQL "
            "window.start and window.end say it",
            "useWindowStartTime",
        ),
        Parameter(
            "round_time",
            "true",
            "whether long steps are aligned to more than a minute (of minutes: to more than an hour; of nanoseconds: to more "
            "than 1,000)",
            "roundTime",
        ),
        Parameter(
            "alignment_profile",
            "en",
            "en or cn: which table of alignments; they differ for steps of 2 to 3 minutes counted in milliseconds",
        ),
        Parameter("origin", "by alignment", "an instant that is an edge of the grid, instead of the rule of alignment"),
        Parameter(
            "grid_origin",
            "engine",
            "engine: all keys share the grid of the first row of all; key: each has its own, where step does not divide the "
            "alignment",
        ),
        Parameter(
            "measure_sizes",
            "in order",
            "for each measure the index, from 0, of its window size; left out: one size for each measure; in Python a list of "
            "mappings as measures says it",
            "metrics as a list of lists",
        ),
        Parameter(
            "multi_window_rule",
            "largest",
            "with several sizes a result exists when the largest window has rows (largest), or when all have (all)",
        ),
        Parameter(
            "sub_window",
            "none",
            "two lengths from the window's start: only rows between them count; needs one window_size equal to step; excludes "
            "update_time above 0 and use_system_time",
            "subWindow",
        ),
        Parameter(
            "use_system_time",
            "false",
            "true when the time column holds times of arrival: then rows of any key close windows, and accepted_delay lets a "
            "window take rows for so long after its end",
            "useSystemTime",
        ),
        *_CLOSING,
    ),
    elsewhere=_DOLPHINDB_ELSEWHERE,
    sql="""\
CREATE MATERIALIZED VIEW trades_sliding
COMMENT 'Six minutes of trades, every three minutes'
TBLPROPERTIES ('engine' = 'time_series', 'sequence' = 'trade_id')
AS SELECT window.end AS time, sym,
          sum(volume) AS volume, max(price) AS high, last(price) AS close
   FROM trades
   GROUP BY window(ts, '6 minutes', '3 minutes'), sym""",
    python="""\
m.define(
    "trades_sliding",
    "trades",
    engine="time_series",
    time="ts",
    keys=["sym"],
    window_size="6 minutes",
    step="3 minutes",
    measures={"volume": "sum(volume)", "high": "max(price)", "close": "last(price)"},
    sequence="trade_id",
    comment="Six minutes of trades, every three minutes",
)""",
)

_DAILY: Final = Guide(
    name="daily_time_series",
    title="windows inside the trading sessions of a day",
    purpose=(
        "Bars of trading days: windows begin with their session and the last one of a session is cut at its end. Rows before "
        "a session count in its first window, rows after the last one in none. Times of day are those of the column, UTC "
        "for timestamps."
    ),
    follows=f"{_OF_DOLPHINDB} (createDailyTimeSeriesEngine)",
    parameters=(
        Parameter("window_size", "required", "length of a window", "windowSize"),
        Parameter("step", "window_size", "must be equal to window_size", "step"),
        Parameter(
            "session_begin",
            "00:00:00",
            "times of day at which sessions begin, in the order of the trading day, separated by commas; one that is before the "
            "end before it lies on the next day",
            "sessionBegin",
        ),
        Parameter(
            "session_end",
            "00:00:00",
            "times of day at which they end, one for each begin; one that is not after its begin lies on the next day",
            "sessionEnd",
        ),
        Parameter("merge_session", "false", "whether sessions that touch are one", "mergeSession"),
        Parameter(
            "merge_session_end",
            "false",
            "with closed = left: a row exactly at the end of a session counts in its last window",
            "mergeSessionEnd",
        ),
        Parameter(
            "merge_last_window",
            "false",
            "whether a short last window belongs to the one before it, which keeps its label",
            "mergeLastWindow",
        ),
        Parameter(
            "force_trigger_session_end_time",
            "none",
            "the clock closes all windows of a session this long after the session's end; left out: each at its own end",
            "forceTriggerSessionEndTime",
        ),
        Parameter(
            "key_purge_daily",
            "true",
            "whether a new trading day closes what is open, and filling ends with the day",
            "keyPurgeDaily",
        ),
        Parameter("holidays", "none", "trading days without sessions, by their dates, separated by commas"),
        Parameter(
            "half_days",
            "none",
            "trading days with the time at which their sessions end: 2024-12-24 13:00, separated by commas",
        ),
        Parameter("weekdays", "all", "the trading days with sessions, from 1 (Monday) to 7, separated by commas"),
        Parameter(
            "calendar",
            "none",
            "says sessions and days in the place of session_begin, session_end, holidays, half_days and weekdays: exchange:NAME, by exchange_calendars, or table:NAME, a Delta table",
        ),
        Parameter("calendar_zone", "UTC", "the zone whose clock the time column shows; timestamps are UTC"),
        Parameter(
            "calendar_start", "2000-01-01", "the first date of an exchange's calendar; rows before it are refused"
        ),
        Parameter(
            "calendar_end", "what is known", "the last date of an exchange's calendar; rows after it are refused"
        ),
        _DAILY_KIND,
        Parameter(
            "use_window_start_time",
            "false",
            "whether results are labelled with the start of their window; in SQL window.start and window.end say it",
            "useWindowStartTime",
        ),
        Parameter("round_time", "false", "taken and ignored: windows begin with their session", "roundTime"),
        Parameter("use_system_time", "false", "only false: sessions are times of day of the rows", "useSystemTime"),
        *_CLOSING,
    ),
    elsewhere=_DOLPHINDB_ELSEWHERE,
    sql="""\
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
   GROUP BY window(ts, '4 minutes'), sym""",
    python="""\
m.define(
    "trades_by_session",
    "trades",
    engine="daily_time_series",
    time="ts",
    keys=["sym"],
    window_size="4 minutes",
    session_begin=["09:30:00", "09:43:00"],
    session_end=["09:40:00", "09:48:00"],
    measures={"open": "first(price)", "close": "last(price)", "volume": "sum(volume)"},
    sequence="trade_id",
    comment="Four-minute bars of two short sessions",
)""",
)

_SESSIONS: Final = Guide(
    name="session_window",
    title="rows that follow each other closely, until a pause",
    purpose=(
        "Visits, bursts, trips: rows of a key belong together while the time between neighbours is shorter than the gap; a "
        "row exactly at the end of the gap begins a new session. A session ends the gap after its last row, and is closed by "
        "the next row of its key. A late row may bridge two sessions."
    ),
    follows="the session-window engine of DolphinDB (createSessionWindowEngine)",
    parameters=(
        Parameter("session_gap", "required", "a session ends when no row comes for this long", "sessionGap"),
        Parameter(
            "use_session_start_time",
            "true",
            "whether results are labelled with the first row of their session, or with its end; in SQL session_window.start "
            "and .end say it",
            "useSessionStartTime",
        ),
        Parameter(
            "update_time",
            "none",
            "when given, open sessions are shown with is_final = false; needs use_session_start_time; excludes use_system_time",
            "updateTime",
        ),
        Parameter(
            "force_trigger_time",
            "none",
            "the clock closes everything that is open this long after the newest row of all keys; without a clock that row's time "
            "counts, so that 0 leaves nothing open; excludes use_system_time",
            "forceTriggerTime",
        ),
        Parameter(
            "use_system_time",
            "false",
            "true when the time column holds times of arrival; excludes update_time and force_trigger_time",
            "useSystemTime",
        ),
        _TIME_KIND,
        Parameter("parallelism", "none", _STREAMING_ONLY, "parallelism"),
        *_IGNORED,
    ),
    elsewhere=_DOLPHINDB_ELSEWHERE,
    sql="""\
CREATE MATERIALIZED VIEW bursts
COMMENT 'Trades with less than two minutes between them'
TBLPROPERTIES ('sequence' = 'trade_id')
AS SELECT session_window.start AS begun, sym,
          count(*) AS trades, sum(volume) AS volume
   FROM trades
   GROUP BY session_window(ts, '2 minutes'), sym""",
    python="""\
m.define(
    "bursts",
    "trades",
    engine="session_window",
    time="ts",
    keys=["sym"],
    session_gap="2 minutes",
    use_session_start_time=True,
    label="begun",
    measures={"trades": "count(*)", "volume": "sum(volume)"},
    sequence="trade_id",
    comment="Trades with less than two minutes between them",
)""",
)

_REACTIVE: Final = Guide(
    name="reactive_state",
    title="one result for each row, from the rows of its key up to it",
    purpose=(
        "Moving averages, running totals, differences to the row before: each source row gives one result. Measures are "
        "expressions of the row around state functions: mavg, msum, mmax, mmin, mstd, mcount (of the last n rows), prev, "
        "deltas, ratios, move (the row before, or n before), cumsum, cummax, cummin, cumcount, cumavg, ema (all rows so far)."
    ),
    follows="the reactive state engine of DolphinDB (createReactiveStateEngine)",
    parameters=(
        Parameter(
            "filter",
            "none",
            "which results are shown: a condition over columns and measures; the state counts all rows",
            "filter",
        ),
        Parameter("keep_order", "false", "true or false, without effect: a table has no order", "keepOrder"),
        Parameter(
            "key_purge_filter",
            "none",
            "taken and ignored: silent keys cost nothing; needs key_purge_freq_in_second",
            "keyPurgeFilter",
        ),
        Parameter(
            "key_purge_freq_in_second",
            "none",
            "taken and ignored, a whole number from 1; needs key_purge_filter",
            "keyPurgeFreqInSecond",
        ),
        Parameter("key_capacity", "none", _STREAMING_ONLY, "keyCapacity"),
        Parameter("parallelism", "none", _STREAMING_ONLY, "parallelism"),
        *_IGNORED[1:],
    ),
    elsewhere=(
        ("name", "the name of the aggregate"),
        ("metrics", "the measures"),
        ("keyColumn", "the keys: one, several or none"),
        ("dummyTable", "the source itself gives the types"),
        ("outputTable", "the output of the aggregate, which others may read as their source"),
    ),
    sql="""\
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
   FROM trades""",
    python="""\
m.define(
    "trades_running",
    "trades",
    engine="reactive_state",
    time="ts",
    keys=["sym"],
    label="ts",
    measures={
        "change": "price - prev(price)",
        "mean_of_3": "mavg(price, 3)",
        "volume_so_far": "cumsum(volume)",
    },
    sequence="trade_id",
    comment="Each trade with what came before it",
)""",
)

_END: Final = Parameter(
    "end",
    "required",
    "column with the end of an event, the time column being its start; null: the event lasts for ever; not after the start: "
    "it lasts one tick",
    "the end of an event's life",
)
_INTERVALS_ELSEWHERE: Final = (
    ("the start of an event's life", "the time column"),
    ("group by", "the keys"),
    ("aggregates over the window", "the measures"),
    ("clipping to the window", "not there: an event counts whole in each of its windows"),
    ("time advance (CTI)", "--as-of of a refresh: only windows that end by it are there"),
)
_ALIGNMENT: Final = Parameter(
    "alignment", "1970-01-01", "an instant at which a window starts; a whole number for integer columns", "alignment"
)

_HOPPING: Final = Guide(
    name="hopping_window",
    title="overlapping windows over events that last",
    purpose=(
        "Events with a start and an end, such as orders or calls: windows of fixed length start at every period, and an "
        "event counts in every window that it overlaps. Windows without events do not exist."
    ),
    follows=f"{_OF_STREAMINSIGHT} (HoppingWindow)",
    parameters=(
        _END,
        Parameter("duration", "required", "length of a window", "windowSize"),
        Parameter("period", "duration", "distance between the starts of windows; may be longer than them", "hopSize"),
        _ALIGNMENT,
        Parameter(
            "default_end",
            "none",
            "an instant at which events without an end, end; without it such an event fails the refresh",
        ),
        Parameter(
            "output_policy",
            "point_align_to_window_end",
            "point_align_to_window_end labels results with the window's end, clip_to_window_end with its start; words may "
            "stand together, as in ClipToWindowEnd",
            "HoppingWindowOutputPolicy",
        ),
        _TIME_KIND,
    ),
    elsewhere=_INTERVALS_ELSEWHERE,
    sql="""\
CREATE MATERIALIZED VIEW open_orders_hopping
COMMENT 'Orders alive in six minutes, every three minutes'
TBLPROPERTIES (
  'engine' = 'hopping_window',
  'end' = 'done',
  'default_end' = '2024-03-04T09:45:00Z'
)
AS SELECT window.end AS time, sym,
          count(*) AS orders, sum(size) AS size
   FROM orders
   GROUP BY window(placed, '6 minutes', '3 minutes'), sym""",
    python="""\
m.define(
    "open_orders_hopping",
    "orders",
    engine="hopping_window",
    time="placed",
    keys=["sym"],
    end="done",
    duration="6 minutes",
    period="3 minutes",
    default_end="2024-03-04T09:45:00Z",
    measures={"orders": "count(*)", "size": "sum(size)"},
    comment="Orders alive in six minutes, every three minutes",
)""",
)

_COMPRESSED: Final = Guide(
    name="compressed_hopping_window",
    title="overlapping windows over events that last, equal neighbours in one row",
    purpose=(
        "The results of hopping windows with one row for each stretch in which they do not change. An event without an end "
        "is one row without an end, where plain hopping windows would have to be bounded. Results are labelled with the "
        "start of their stretch."
    ),
    follows=f"{_OF_STREAMINSIGHT} (hopping windows as snapshot windows over adjusted events)",
    parameters=(
        _END,
        Parameter("duration", "required", "length of a window", "windowSize"),
        Parameter(
            "period",
            "duration",
            "distance between the starts of windows; at most the duration, so that windows leave no gap",
            "hopSize",
        ),
        _ALIGNMENT,
        _TIME_KIND,
    ),
    elsewhere=_INTERVALS_ELSEWHERE,
    sql="""\
CREATE MATERIALIZED VIEW open_orders_compressed
COMMENT 'Orders alive in six minutes, every three minutes, one row for each change'
TBLPROPERTIES ('engine' = 'compressed_hopping_window', 'end' = 'done')
AS SELECT window.start AS time, sym,
          count(*) AS orders, sum(size) AS size
   FROM orders
   GROUP BY window(placed, '6 minutes', '3 minutes'), sym""",
    python="""\
m.define(
    "open_orders_compressed",
    "orders",
    engine="compressed_hopping_window",
    time="placed",
    keys=["sym"],
    end="done",
    duration="6 minutes",
    period="3 minutes",
    measures={"orders": "count(*)", "size": "sum(size)"},
    comment="Orders alive in six minutes, every three minutes, one row for each change",
)""",
)

_SNAPSHOT: Final = Guide(
    name="snapshot_window",
    title="one result for each stretch in which the same events are alive",
    purpose=(
        "How many orders are open, which load lies on a machine: time is cut at every start and every end of an event, and "
        "each stretch between two cuts with an event in it is one result, labelled with its start."
    ),
    follows=f"{_OF_STREAMINSIGHT} (SnapshotWindow)",
    parameters=(_END, _TIME_KIND),
    elsewhere=_INTERVALS_ELSEWHERE,
    sql="""\
CREATE MATERIALIZED VIEW open_orders
COMMENT 'Open orders, one row for each change'
TBLPROPERTIES (
  'engine' = 'snapshot_window',
  'time' = 'placed',
  'time_kind' = 'datetime',
  'end' = 'done',
  'label' = 'since'
)
AS SELECT sym, count(*) AS orders, sum(size) AS size
   FROM orders
   GROUP BY sym""",
    python="""\
m.define(
    "open_orders",
    "orders",
    engine="snapshot_window",
    time="placed",
    keys=["sym"],
    end="done",
    time_kind="datetime",
    label="since",
    measures={"orders": "count(*)", "size": "sum(size)"},
    comment="Open orders, one row for each change",
)""",
)

_COUNT: Final = Guide(
    name="count_window",
    title="windows over a fixed number of distinct times",
    purpose=(
        "The last n points in time instead of the last n minutes: a window holds the rows of so many consecutive distinct "
        "times of a key, slides by one of them, and ends one tick after the last, which is its label. Rows of equal time "
        "count once, so a window may hold more rows. Windows that are not full are not there."
    ),
    follows=f"{_OF_STREAMINSIGHT} (CountByStartTimeWindow)",
    parameters=(
        Parameter("count", "required", "how many distinct times a window has, at least 1", "count"),
        Parameter("end", "none", _END.meaning, _END.original),
        _TIME_KIND,
    ),
    elsewhere=_INTERVALS_ELSEWHERE,
    sql="""\
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
   GROUP BY sym""",
    python="""\
m.define(
    "last_three",
    "trades",
    engine="count_window",
    time="ts",
    keys=["sym"],
    time_kind="datetime",
    count=3,
    measures={"mean": "avg(price)", "volume": "sum(volume)"},
    sequence="trade_id",
    comment="Three consecutive trades",
)""",
)

_EVENT_TIME: Final = Guide(
    name="event_time_window",
    title="panes on a fixed grid, closed by one watermark for all keys",
    purpose=(
        "Fixed windows that lie on the epoch, whatever the data, and close for all keys at once: when the watermark, which "
        "stands the lag behind the newest row of any key, has reached their end. Lengths given as numbers are seconds."
    ),
    follows="IBM Streams (@eventTime, with timeInterval windows)",
    parameters=(
        Parameter("interval_duration", "required", "length of a pane", "intervalDuration"),
        Parameter("creation_period", "interval_duration", "distance between the starts of panes", "creationPeriod"),
        Parameter("offset", "0", "start of a pane, counted from the epoch; less than interval_duration", "offset"),
        Parameter("lag", "0", "the watermark stands this far behind the newest row", "lag"),
        Parameter(
            "minimum_gap",
            "0.1",
            "with lateness strict or delay the watermark advances by no less than this",
            "minimumGap",
        ),
        Parameter(
            "discard_age",
            "0",
            "with lateness strict or delay a pane takes late rows until the watermark is this far past its end",
            "discardAge",
        ),
    ),
    elsewhere=(
        ("eventTimeAttribute", "the time column"),
        ("resolution", "time.resolution of the definition; integer columns count milliseconds without it"),
        ("partitionBy", "the keys, which share one watermark"),
        ("aggregates over the pane", "the measures"),
    ),
    sql="""\
CREATE MATERIALIZED VIEW trades_in_panes
COMMENT 'Five minutes of trades, closed a minute late'
TBLPROPERTIES ('engine' = 'event_time_window', 'lag' = '1 minute')
AS SELECT window.end AS time, sym,
          count(*) AS trades, sum(volume) AS volume
   FROM trades
   GROUP BY window(ts, '5 minutes'), sym""",
    python="""\
m.define(
    "trades_in_panes",
    "trades",
    engine="event_time_window",
    time="ts",
    keys=["sym"],
    interval_duration="5 minutes",
    lag="1 minute",
    measures={"trades": "count(*)", "volume": "sum(volume)"},
    comment="Five minutes of trades, closed a minute late",
)""",
)

_CONTINUOUS: Final = Guide(
    name="continuous_aggregate",
    title="buckets that divide time, whatever the data; the default",
    purpose=(
        "A GROUP BY over time and keys that is kept true: each row is in exactly one bucket, buckets are never open, and "
        "new rows are merged into stored state where that is possible. It needs no 'engine' property, and has its own output: "
        "the bucket, the keys and the measures."
    ),
    follows="TimescaleDB (continuous aggregates)",
    parameters=(
        Parameter("width", "required", "length of a bucket: fixed, days, weeks, months or years", "bucket_width"),
        Parameter("timezone", "UTC", "zone whose local time is divided", "timezone"),
        Parameter(
            "origin", "2000-01-03", "an instant on an edge; 2000-01-01 for months; the epoch for window(…)", "origin"
        ),
        Parameter("offset", "none", "shift of every edge", "offset"),
        Parameter("align", "time_bucket", "in Python: time_bucket or window, whose edges count from the epoch"),
        Parameter("bucket", "bucket", "in Python: name of the output column with the bucket's start"),
        Parameter("bucket_end", "none", "in Python: name of the output column with the bucket's end"),
        Parameter("having", "none", "which groups of the result are shown", "HAVING"),
        Parameter("sequence", "none", "column that orders rows of equal time"),
    ),
    elsewhere=(
        ("time_bucket(…)", "the same in GROUP BY; or window(…), date_trunc(…)"),
        ("refresh_continuous_aggregate", "materializer refresh"),
        ("add_continuous_aggregate_policy", "the properties refresh.*"),
    ),
    sql="""\
CREATE MATERIALIZED VIEW trades_5m
COMMENT 'Five minutes of trades'
TBLPROPERTIES ('sequence' = 'trade_id')
AS SELECT window.start AS bucket, sym,
          count(*) AS trades, sum(volume) AS volume, last(price) AS close
   FROM trades
   GROUP BY window(ts, '5 minutes'), sym""",
    python="""\
m.define(
    "trades_5m",
    "trades",
    time="ts",
    width="5 minutes",
    align="window",
    keys=["sym"],
    measures={"trades": "count(*)", "volume": "sum(volume)", "close": "last(price)"},
    sequence="trade_id",
    comment="Five minutes of trades",
)""",
)

GUIDES: Final[Mapping[str, Guide]] = {
    g.name: g
    for g in (
        _CONTINUOUS,
        _TIME_SERIES,
        _DAILY,
        _SESSIONS,
        _REACTIVE,
        _HOPPING,
        _COMPRESSED,
        _SNAPSHOT,
        _COUNT,
        _EVENT_TIME,
    )
}
"""All engines, the continuous aggregate first."""


def guide(name: str) -> Guide:
    """Return what users read about an engine.

    Raises:
        KeyError: If there is no such engine.

    Examples:
        >>> guide("session_window").parameters[0].name
        'session_gap'
    """
    return GUIDES[name]
