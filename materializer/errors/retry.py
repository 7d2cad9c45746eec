"""There is no fault, and the same call may succeed later: exit status 75."""

from __future__ import annotations

from materializer.errors.base import UnwrittenError


class RetryableError(UnwrittenError):
    """There is no fault; the same call may succeed later."""

    code = "retry"
    exit_status = 75
    default_hint = "run the same command again"


class LeaseHeldError(RetryableError):
    """Another live process holds the lease of this aggregate."""

    code = "lease.held"


class LeaseLostError(RetryableError):
    """This process lost its lease to another process while it worked."""

    code = "lease.lost"


class JournalConflictError(RetryableError):
    """Other processes committed to the journal first, several times in a row."""

    code = "journal.conflict"


class WriteFencedError(RetryableError):
    """A write came too late: the table already carries this or a higher refresh number."""

    code = "write.fenced"
