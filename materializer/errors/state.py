"""The journal or our tables are not as we left them: exit status 69."""

from __future__ import annotations

from materializer.errors.base import MaterializerError


class JournalError(MaterializerError):
    """The journal cannot be read, or contains something unknown."""

    code = "journal.corrupt"
    exit_status = 69


class JournalVersionError(JournalError):
    """The journal was written by a newer materializer."""

    code = "journal.too-new"


class JournalLostError(JournalError):
    """The journal does not contain an aggregate whose tables exist."""

    code = "journal.lost"
    default_hint = "restore a backup of the journal, or 'materializer repair --definitions FILE' takes the tables over"


class TablesAheadError(MaterializerError):
    """One of our tables carries a refresh that the journal does not contain, or is not the table that we wrote."""

    code = "tables.ahead"
    exit_status = 69


class OutsideLakeError(MaterializerError):
    """A place in a lake is a link, so that what is written or removed there would lie elsewhere."""

    code = "lake.outside"
    exit_status = 69


class ForeignTableError(MaterializerError):
    """The path of one of our tables holds a table that is not ours."""

    code = "tables.foreign"
    exit_status = 69


class ForeignHistoryError(ForeignTableError):
    """One of our tables carries the refresh number that the journal has, but another plan wrote it."""

    code = "tables.foreign-history"
