"""Grafana's dashboards: ``python -m deploy.monitoring.grafana_files`` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deploy.monitoring.panels import DASHBOARDS, Dashboard, Panel

__all__ = ["FOLDER", "render"]

FOLDER = Path(__file__).parent / "grafana" / "dashboards"
_SOURCE = {"type": "prometheus", "uid": "prometheus"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3


def render(dashboard: Dashboard) -> str:
    """The file's text."""
    model = {
        "name": "model",
        "type": "query",
        "datasource": _SOURCE,
        "query": "label_values(triton_llm_requests_running, model)",
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
    record = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["triton-llm"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [model]},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }
    return json.dumps(record, indent=1) + "\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": query.expr, "legendFormat": query.legend}
            for i, query in enumerate(panel.queries)
        ],
    }


def main() -> None:
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(render(dashboard), "utf-8")


if __name__ == "__main__":
    main()
