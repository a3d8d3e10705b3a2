"""Notebooks run by labkit: parameters checked first, success by labkit's own record, one offline page."""

from labkit.report.record import Findings, RunRecord, finish
from labkit.report.report import ReportResult, run_report

__all__ = ["Findings", "ReportResult", "RunRecord", "finish", "run_report"]
