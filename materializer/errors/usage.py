"""A request or a setting makes no sense: exit status 64."""

from __future__ import annotations

from materializer.errors.base import UnwrittenError


class UsageError(UnwrittenError):
    """An argument of a command or a call is invalid."""

    code = "usage"
    exit_status = 64


class ConfigError(UnwrittenError):
    """`materializer.toml` or an environment variable has an invalid setting."""

    code = "config.invalid"
    exit_status = 64


class UnknownAggregateError(UsageError):
    """No aggregate with that name is defined in this lake."""

    code = "aggregate.unknown"


class HasReadersError(UsageError):
    """An aggregate cannot be dropped while other aggregates read it."""

    code = "aggregate.has-readers"


class RefreshWindowError(UsageError):
    """A window is reversed or empty, or its ends cannot be read."""

    code = "window.invalid"


class RefreshWindowTooSmallError(RefreshWindowError):
    """A window holds no whole bucket."""

    code = "window.too-small"


class FrozenWindowError(RefreshWindowError):
    """A window lies wholly below the frozen boundary, where nothing is computed from raw rows any more."""

    code = "window.frozen"


class RetiredWindowError(RefreshWindowError):
    """A window lies wholly before the buckets that the output retains (``output.retention``)."""

    code = "window.retired"


class UnknownPolicyError(UsageError):
    """An aggregate has no refresh policy with that name."""

    code = "policy.unknown"


class PolicyExistsError(UsageError):
    """An aggregate already has a refresh policy with that name."""

    code = "policy.exists"


class PolicyNowError(UsageError):
    """The *now* of a policy cannot be read, or is missing where no clock can supply it."""

    code = "policy.now"


class ExpireBoundError(UsageError):
    """History cannot be frozen up to that time: it is no valid time, or nothing was materialised up to it."""

    code = "expire.bound"


class ForeignSettingError(UsageError):
    """A Spark setting is in force that would lose data silently."""

    code = "spark.unsafe-setting"


class NothingBuiltError(UsageError):
    """No next version of the aggregate is being built, or no previous version is stored."""

    code = "version.none"


class IncomparableError(UsageError):
    """The outputs of an aggregate in two lakes have no rows that could be compared."""

    code = "diff.incomparable"


class DiffTooLargeError(UsageError):
    """The outputs of an aggregate in two lakes have more rows than this process compares."""

    code = "diff.too-large"
