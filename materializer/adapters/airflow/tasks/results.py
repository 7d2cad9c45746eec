"""The result of a refresh from a command's document: for XCom, for an asset event, and in one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

LARGEST: Final = 48_000
"""Maximum length of a result's JSON in XCom, which Airflow stores in its database."""


def merged(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one document with the refreshes of all documents."""
    return {"refreshes": [r for d in documents for r in d.get("refreshes", [])]}


def shortened(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return *document* shortened for XCom: the steps of runs are dropped first, then all runs except the last ones."""
    short = dict(document)
    refreshes = [dict(r) for r in document.get("refreshes", [])]
    if len(json.dumps(short)) > LARGEST:
        for refresh in refreshes:
            refresh["runs"] = [{k: v for k, v in run.items() if k != "steps"} for run in refresh.get("runs", [])]
        short["refreshes"] = refreshes
    if len(json.dumps(short)) > LARGEST:
        for refresh in refreshes:
            refresh["runs"] = refresh["runs"][-20:]
            refresh["left"] = refresh.get("left", [])[:20]
    return short


def event_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of an asset event: the combined result of the refreshes of one aggregate."""
    refreshes = document.get("refreshes", [])
    runs = _runs(document)
    return {
        "aggregate": next((r["name"] for r in refreshes), None),
        "source_version": max(
            (r["source_version"] for r in refreshes if r["source_version"] is not None), default=None
        ),
        "refreshes": [run["refresh"] for run in runs[-20:]],
        "dirty_buckets": sum(run["buckets"] for run in runs),
        "rows_read": sum(run["rows_read"] for run in runs),
        "rows_written": sum(run["rows_written"] for run in runs),
        "strategy": "+".join(dict.fromkeys(s for run in runs for s in run["strategy"].split("+") if s)),
        "seconds": round(sum(r["seconds"] for r in refreshes), 3),
    }


def summary(document: Mapping[str, Any]) -> str:
    """Return the work that was done, in one line."""
    refreshes = document.get("refreshes", [])
    if not refreshes:
        return "nothing was to do"
    if not _runs(document):
        looked = ", ".join(f"{r['name']} {_idle(r)} at source version {r['source_version']}" for r in refreshes)
        return f"nothing was to do: {looked}"
    did = event_of(document)
    return (
        f"{did['aggregate']}: {did['dirty_buckets']:,} buckets by {did['strategy']}, {did['rows_read']:,} rows read, "
        f"{did['rows_written']:,} written, {did['seconds']} s, source version {did['source_version']}"
    )


def _idle(refresh: Mapping[str, Any]) -> str:
    """Return a line about a refresh without a run."""
    is_empty = refresh["outcome"] == "empty-window"
    return "has no whole bucket in the window" if is_empty else f"is {refresh['outcome']}"


def planned(document: Mapping[str, Any]) -> list[str]:
    """Return the document of ``plan`` in a few lines: the window, then each step of the first run."""
    where = f"at source version {document['source_version']}"
    if document["plan"] is None:
        return [f"{document['name']}: nothing is to do in {_span(document['window'])} {where}"]
    many = f", the first of {document['runs']} runs" if document["runs"] > 1 else ""
    lines = [f"{document['name']} would refresh {_span(document['plan']['window'])} {where}{many}"]
    for step in document["plan"]["steps"]:
        spans, reads = step["spans"], step["reads"]
        where = (
            _span(spans[0]) if len(spans) == 1 else f"{len(spans)} spans from {_span(spans[0])} to {_span(spans[-1])}"
        )
        read = f"; reads at most {reads['rows']:,} rows, files: {reads['files']:,}" if reads["files"] else ""
        lines += [
            f"  {step['strategy']} {where}",
            f"    {step['reason']}{read}",
            *(f"    not {r['strategy']}: {r['reason']}" for r in step["rejected"] if r["reason"] != step["reason"]),
        ]
    return lines


def _span(span: Mapping[str, Any] | None) -> str:
    if span is None:
        return "an empty window"
    start, end = span["start"], span["end"]
    return f"[{'the beginning' if start is None else start}, {'open' if end is None else end})"


def _runs(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [run for r in document.get("refreshes", []) for run in r.get("runs", [])]
