"""What counters alone prove about a trial of real packets, and what they leave open."""

from __future__ import annotations

from labkit.records import Trial
from labkit.simnic.run import Share

BUSY_SHARE = 0.98


def counted_budget(trial: Trial) -> tuple[Share, ...]:
    """The sender's CPU time a packet, not split further: no counter splits it. Empty when it is not known."""
    if not trial.device_sent or trial.cpu_ns is None or trial.elapsed_ns is None:
        return ()
    ns = min(trial.cpu_ns, trial.elapsed_ns) / trial.device_sent
    return (
        Share(name="on the sender's CPU", ns_per_packet=ns, source="counted: CPU time of the sending thread"),
    )


def counted_evidence(trial: Trial) -> tuple[str, ...]:
    """Counts that say something about the limit, a line each."""
    lines = []
    if trial.cpu_ns is not None and trial.elapsed_ns:
        share = min(1.0, trial.cpu_ns / trial.elapsed_ns)
        lines.append(
            f"the sending thread was on its CPU {share:.1%} of the time"
            + (", so it waited for nobody" if share >= BUSY_SHARE else "")
        )
    refused = ", ".join(f"{count:,} {name}" for name, count in trial.refused_by_errno.items())
    if refused:
        lines.append(f"the kernel refused frames: {refused}")
    for name, count in (("the qdisc", trial.qdisc_dropped), ("the device", trial.device_dropped)):
        if count:
            lines.append(f"{name} dropped {count:,} frames")
    requeues = trial.environment.get("qdisc_requeues")
    if requeues:
        lines.append(f"the qdisc took packets back {requeues:,} times: the device below was full")
    if trial.peer_dropped:
        lines.append(f"the peer dropped {trial.peer_dropped:,} frames: the receiver is slower")
    agrees = {
        True: f"counts agree: {trial.device_sent or 0:,} frames left the device",
        False: f"counts do not agree, so nothing here is safe: {trial.difference_reason}",
        None: f"counts cannot be held against each other: {trial.difference_reason or 'one is missing here'}",
    }
    lines.append(agrees[trial.reconciled])
    if trial.marks:
        lines.append(f"marks: {', '.join(trial.marks)}; a disturbed run explains little")
    return tuple(lines)


def counted_unknown(trial: Trial) -> tuple[str, ...]:
    """What nobody counted."""
    told = [f"what single steps cost: {trial.rig} has no profile of this machine"]
    if trial.limiter is None:
        told.insert(0, "what limits: no counter proves a limit; a busy CPU is a conclusion, not a proof")
    if trial.device_sent is None:
        told.append("how many frames left the device: nobody counted them")
    if "tx_ring" in trial.settings_accepted:
        told.append("how full the TX ring was: nobody counts its descriptors")
    if trial.cpu_ns is None:
        told.append("the sender's CPU time: not counted")
    return tuple(told)
