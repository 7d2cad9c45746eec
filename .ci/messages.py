"""Check commit messages: one given as a file (the hook), or those of a range of commits (CI).

    python .ci/messages.py FILE
    python .ci/messages.py [--since COMMIT]

Without arguments it checks every commit since the one that added this file. Only the standard library is used, because the hook
runs before anything is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LONGEST = 72
"""Characters of a subject."""
IMPERATIVE = {"Bring", "Embed", "Exceed", "Feed", "Focus", "Need", "Proceed", "Ring", "Seed", "Shed", "Speed", "String"}
"""Verbs that end like another form of a verb."""
_OTHER_FORM = re.compile(r"(?:ed|ing|[^s]s)$", re.IGNORECASE)
_TRAILER = re.compile(r"^[A-Z][A-Za-z-]+: ")


def problems(message: str) -> list[str]:
    """Return what is wrong with a message: subject of at most 72 characters in the imperative, an empty line, a body."""
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    subject, *rest = lines or [""]
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters, at most {LONGEST} are allowed")
    words = subject.rpartition(": ")[2].split()
    verb = words[0] if words else ""
    if not subject[:1].isupper() or subject.endswith("."):
        found.append("the subject begins with a capital letter and ends without a full stop")
    if not verb or (_OTHER_FORM.search(verb) and verb.capitalize() not in IMPERATIVE):
        found.append(f"the subject says what the commit does, as a command: 'Add …', not '{verb or '…'} …'")
    if rest and rest[0]:
        found.append("an empty line follows the subject")
    if not any(line and not _TRAILER.match(line) for line in rest):
        found.append("the body says why, and how it was checked")
    return found


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def _messages(since: str) -> list[tuple[str, str]]:
    """Return (short id, message) of the commits after *since* that are no merges; none outside a repository."""
    try:
        since = since or _git("log", "--diff-filter=A", "--format=%H", "--", ".ci/messages.py").split()[-1]
        text = _git("log", "--no-merges", "--format=%h%x00%B%x01", f"{since}..HEAD")
    except (OSError, subprocess.CalledProcessError, IndexError):
        return []
    return [(name.strip(), body) for name, _, body in (part.partition("\0") for part in text.split("\1")) if body]


def main(arguments: list[str]) -> int:
    """Print what is wrong, a line for each problem; return 1 if anything is."""
    if arguments and arguments[0] != "--since":
        asked = [("this message", Path(arguments[0]).read_text(encoding="utf-8"))]
    else:
        asked = _messages(arguments[1] if arguments else "")
    found = [f"{name}: {problem}" for name, message in asked for problem in problems(message)]
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
