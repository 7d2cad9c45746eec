"""What depends on what in a lake, as a graph: sources, aggregates, and the tables of which Airflow makes assets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from materializer.core.compiled.rolled_up import finer
from materializer.core.spec.spec import AggregateSpec
from materializer.journal.state import AggregateState
from materializer.services.aggregate import compiled, output_path
from materializer.services.definitions.lineage import maker_of
from materializer.services.report.status import Status


def graph(root: str, states: Mapping[str, AggregateState], statuses: Sequence[Status]) -> dict[str, Any]:
    """Return the nodes and arrows of a lake; an arrow goes from what is read to what reads it.

    Shape:
        ``nodes``: ``id``, ``kind`` (``source`` or ``aggregate``), ``name``, ``state``, ``engine``, ``asset`` (the table, of which
        the DAGs make an asset).
        ``arrows``: ``from``, ``to``, ``kind`` (``reads``, ``rolls up`` or ``takes partials of``).
    """
    named = {status.name: status for status in statuses}
    nodes: dict[str, dict[str, Any]] = {}
    arrows: list[dict[str, str]] = []
    for state in sorted(states.values(), key=lambda s: s.name.lower()):
        spec, name = AggregateSpec.from_json(state.spec), state.name
        word = named[name].state if name in named else "source-unreadable"
        nodes[f"a:{name}"] = _node(f"a:{name}", name, word, spec.engine, output_path(root, name))
        parent = maker_of(state.source.path, root)
        if parent:
            kind = "reads" if spec.rolls_up is None else "rolls up"
            arrows.append({"from": f"a:{parent}", "to": f"a:{name}", "kind": kind})
            continue
        path = state.source.path
        nodes.setdefault(f"s:{path}", _node(f"s:{path}", path.rstrip("/").rpartition("/")[2], "", "", path))
        arrows.append({"from": f"s:{path}", "to": f"a:{name}", "kind": "reads"})
        if _was_rolled_up(state):
            kind = "takes partials of"
            arrows += [{"from": f"a:{other}", "to": f"a:{name}", "kind": kind} for other in _finer(state, states)]
    return {"nodes": list(nodes.values()), "arrows": [a for a in arrows if a["from"] in nodes]}


def _node(node: str, name: str, state: str, engine: str, asset: str) -> dict[str, str]:
    kind = "source" if node.startswith("s:") else "aggregate"
    return {"id": node, "kind": kind, "name": name, "state": state, "engine": engine, "asset": asset}


def _was_rolled_up(state: AggregateState) -> bool:
    """Whether a recent refresh took partials of a finer aggregate in place of raw rows."""
    return any("roll-up" in e.report.strategy.split("+") for e in state.ended)


def _finer(state: AggregateState, states: Mapping[str, AggregateState]) -> Iterator[str]:
    """Yield the aggregates that an aggregate over raw rows may be computed from."""
    ours = compiled(state)
    for other in states.values():
        if other.id != state.id and other.source == state.source and finer(ours, compiled(other)) is not None:
            yield other.name
