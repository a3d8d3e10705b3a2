"""How a veth peer takes frames in: through the backlog, through NAPI, or through NAPI on a thread of its own.

It hangs on three switches, two at the peer and one at the sender, which one knob turns together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import Scalar
from labkit.nic.knob import CompoundKnob, Knob

PEER: Final = "peer"
MIXED: Final = "mixed"
"""What the switches make where they form none of the modes: GRO alone gives the peer a NAPI, and a sender's
own TSO keeps the frames of the stack's senders away from it."""
UNKNOWN: Final = "-"
_WORDS: Final[Mapping[str, Scalar]] = {"on": True, "off": False, UNKNOWN: None}
_SWITCHES: Final = ("gro", "threaded", "tso")


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """GRO and threaded NAPI of the peer, TSO of the sender; None is not to be had here.

    veth hands a frame to the peer's NAPI only if that exists (GRO is on) and the sender itself could not
    have segmented it (drivers/net/veth.c, veth_skb_is_eligible_for_gro: no TSO of any kind).
    """

    gro: Scalar
    threaded: Scalar
    tso: Scalar

    @classmethod
    def of(cls, whole: Scalar) -> Switches:
        """Read the text of `text`."""
        words = str(whole).split()[1::2]
        return cls(**{name: _WORDS.get(word, word) for name, word in zip(_SWITCHES, words, strict=True)})

    @property
    def text(self) -> str:
        """All three as one text: ``gro on threaded off tso off``."""
        return " ".join(f"{name} {_word(getattr(self, name))}" for name in _SWITCHES)

    @property
    def mode(self) -> str | None:
        """One of `PEER_MODES`, ``mixed``, or None where the peer tells nothing of its GRO."""
        if not self.gro:
            return "backlog" if self.gro is False else None
        if self.tso is not False:
            return MIXED
        return "napi-threaded" if self.threaded else "napi"


PEER_MODES: Final[Mapping[str, Switches]] = {
    "backlog": Switches(gro=False, threaded=False, tso=True),
    "napi": Switches(gro=True, threaded=False, tso=False),
    "napi-threaded": Switches(gro=True, threaded=True, tso=False),
}


def check_peer(asked: Mapping[str, Scalar]) -> None:
    """Raise `WorkloadError` unless the mode that is asked for exists and goes with what else is asked."""
    if PEER not in asked:
        return
    mode = asked[PEER]
    if mode not in PEER_MODES:
        raise WorkloadError(f"veth: unknown peer {mode!r}; known: {', '.join(PEER_MODES)}")
    for name in ("gro", "threaded"):
        wanted = getattr(PEER_MODES[str(mode)], name)
        if asked.get(name, wanted) != wanted:
            raise WorkloadError(
                f"veth: peer {mode} means {name} {_word(wanted)}, not {_word(asked[name])}; "
                f"leave out {name}, or peer"
            )


class PeerKnob(CompoundKnob):
    """``peer`` and the two of its switches that are settings of their own, kept and put back as one text.

    Parameters
    ----------
    gro : Knob
        Of the peer.
    threaded : Knob or None
        Of the peer; None where its sysfs is not to be had.
    tso : Knob
        Of the sender.
    why_not_threaded : str or None
        Why there is no `threaded`.
    """

    name = PEER
    resets_link = False

    def __init__(
        self, *, gro: Knob, threaded: Knob | None, tso: Knob, why_not_threaded: str | None = None
    ) -> None:
        self._gro, self._threaded, self._tso = gro, threaded, tso
        self._why_not = why_not_threaded
        self.parts = (PEER, "gro") if threaded is None else (PEER, "gro", "threaded")

    def read(self) -> Scalar:
        """All switches as one text."""
        return self._switches().text

    def write(self, value: Scalar) -> None:
        """Turn the switches that differ; only a peer with NAPI takes or leaves a thread for it."""
        now, target = self._switches(), Switches.of(value)
        turn = self._threaded if target.threaded != now.threaded else None
        if not now.gro and (target.gro or (turn is not None and not target.threaded)):
            self._gro.write(True)  # noqa: FBT003 - the value
        if turn is not None:
            turn.write(target.threaded)
        if self._gro.read() != target.gro:
            self._gro.write(target.gro)
        if now.tso != target.tso:
            self._tso.write(target.tso)

    def split(self, whole: Scalar) -> dict[str, Scalar]:
        """The mode in force, and the peer's switches."""
        switches = Switches.of(whole)
        own = {PEER: switches.mode, "gro": switches.gro, "threaded": switches.threaded}
        return {part: own[part] for part in self.parts}

    def joined(self, whole: Scalar, asked: Mapping[str, Scalar]) -> Scalar:
        """Where `asked` leads; a mode turns all switches, a switch itself alone."""
        check_peer(asked)
        now = Switches.of(whole)
        if PEER not in asked:
            return msgspec.structs.replace(now, **asked).text
        target = PEER_MODES[str(asked[PEER])]
        if self._threaded is None:
            if target.threaded:
                raise CapabilityMissingError(f"veth1 has no setting 'threaded': {self._why_not}")
            target = msgspec.structs.replace(target, threaded=now.threaded)
        return target.text

    def _switches(self) -> Switches:
        threaded = None if self._threaded is None else self._threaded.read()
        return Switches(gro=self._gro.read(), threaded=threaded, tso=self._tso.read())


def _word(value: Scalar) -> str:
    known = {True: "on", False: "off", None: UNKNOWN}
    return known[value] if value is None or isinstance(value, bool) else str(value)
