"""labkit: the packet-per-second lab.

Names load on first use (PEP 562), so that importing labkit is quick and brings in no scapy, plotly,
ipywidgets or papermill.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "rig": "labkit.rigs.choose",
    "known_rigs": "labkit.rigs.catalog",
    "Faults": "labkit.rigs.simulated_faults",
    "Flow": "labkit.traffic.flows",
    "udp_flow": "labkit.traffic.flows",
    "imix_flow": "labkit.traffic.mixes",
    "pcap_flow": "labkit.traffic.captures",
    "write_pcap": "labkit.traffic.captures",
    "count": "labkit.traffic.flows",
    "choices": "labkit.traffic.flows",
    "randoms": "labkit.traffic.flows",
    "audit": "labkit.audit.run",
    "audit_summary": "labkit.audit.run",
    "Workload": "labkit.records",
    "Trial": "labkit.records",
    "run_trial": "labkit.experiment.trial",
    "latency_at_load": "labkit.experiment.latency",
    "Plan": "labkit.experiment.plan",
    "Sweep": "labkit.experiment.sweep",
    "Store": "labkit.results.store",
    "Results": "labkit.results.results",
    "published_table": "labkit.results.published",
    "published_results": "labkit.results.published_results",
    "store_published": "labkit.results.published_results",
    "compare_published": "labkit.experiment.published",
    "published_points": "labkit.experiment.published",
    "table_errors": "labkit.experiment.published",
    "unexplained": "labkit.experiment.unexplained",
    "summarise": "labkit.analysis.summary",
    "summary_frame": "labkit.analysis.summary",
    "scaling": "labkit.analysis.scaling",
    "oscillation": "labkit.analysis.streams",
    "pivot": "labkit.analysis.pivot",
    "table": "labkit.analysis.pivot",
    "explain": "labkit.experiment.explain",
    "expect": "labkit.experiment.explain",
    "loop_and_law": "labkit.experiment.explain",
    "bytes_ahead": "labkit.experiment.explain",
    "drains": "labkit.analysis.ring",
    "wire_budget": "labkit.analysis.ring",
    "profile": "labkit.experiment.profile",
    "profile_validity": "labkit.analysis.cpu_time",
    "kernel_group": "labkit.analysis.kernel_groups",
    "microcosts": "labkit.experiment.microcosts",
    "OPERATIONS": "labkit.analysis.operations",
    "latency_curves": "labkit.plots.latency",
    "bench": "labkit.experiment.bench",
    "bench_plot": "labkit.plots.bench",
    "heatmap": "labkit.plots.heatmaps",
    "heatmap_pair": "labkit.plots.heatmaps",
    "lines": "labkit.plots.curves",
    "waterfall": "labkit.plots.waterfall",
    "count_bars": "labkit.plots.counts",
    "microcost_bars": "labkit.plots.microcosts",
    "profile_icicle": "labkit.plots.cpu_profile",
    "ring_zones": "labkit.plots.rings",
    "published_plot": "labkit.plots.published",
    "bql_over_time": "labkit.plots.queue_limits",
    "bql_series": "labkit.analysis.queue_limits",
    "finish": "labkit.report.record",
    "run_report": "labkit.report.report",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - one table says name and home


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
