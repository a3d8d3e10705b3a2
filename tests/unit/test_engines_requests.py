"""What the engines refuse before a socket is opened, by native engine and twin alike."""

from __future__ import annotations

import mmap
import subprocess
import sys

import msgspec
import pytest

from labkit._native import Progress, StopFlag
from labkit.engines.base import Engine, EngineConfig
from labkit.engines.choose import choose
from labkit.engines.reference import twins
from labkit.engines.ring_geometry import RingGeometry, no_memory, ring_geometry
from labkit.engines.xsk_geometry import no_locked_memory, xsk_geometry
from labkit.errors import WorkloadError
from labkit.traffic.table import FrameTable

ENGINES: dict[str, Engine] = {twin.name: choose(twin.name) for twin in twins()} | {
    f"{twin.name}-twin": twin for twin in twins()
}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))

SOME_FRAMES = FrameTable.of([bytes(60)])


def run(engine: Engine, frames: FrameTable = SOME_FRAMES, **asked: object) -> None:
    # an interface that cannot exist: whatever passes the checks fails there, not on the host's network
    values = {"ifindex": 0x7FFFFFFF, "batch": 1, "count": 1} | asked
    engine.run(frames, EngineConfig(**values), StopFlag(), Progress())


@pytest.mark.parametrize("batch", [-1, 0, 1025, 4096])
@pytest.mark.parametrize(
    "name", ["sendmmsg", "sendmmsg-twin", "tx_ring", "tx_ring-twin", "af_xdp", "af_xdp-twin"]
)
def test_batch_outside_its_limits_is_refused_with_the_limits(name: str, batch: int) -> None:
    with pytest.raises(WorkloadError, match=rf"batch {batch}: .*1 to 1024"):
        run(ENGINES[name], batch=batch)


@pytest.mark.parametrize("batch", [0, 129])
@pytest.mark.parametrize("name", ["gso", "gso-twin"])
def test_super_packet_has_up_to_128_segments(name: str, batch: int) -> None:
    with pytest.raises(WorkloadError, match=rf"batch {batch}: .*1 to 128"):
        run(ENGINES[name], batch=batch)


@every_engine
@pytest.mark.parametrize("priority", [-1, 0, 100])
def test_priority_that_sched_fifo_does_not_have_is_refused(engine: Engine, priority: int) -> None:
    with pytest.raises(WorkloadError, match=rf"realtime_priority {priority}: SCHED_FIFO has 1 to 99"):
        run(engine, realtime_priority=priority)


@pytest.mark.parametrize("name", ["gso", "gso-twin"])
def test_super_packets_do_not_bypass_the_queue(name: str) -> None:
    with pytest.raises(WorkloadError, match=r"qdisc_bypass drops segmented lists.*take 'sendmmsg'"):
        run(ENGINES[name], qdisc_bypass=True)


@pytest.mark.parametrize("ring_frames", [-64, 0, 32, 100, 128, 2**21])
@pytest.mark.parametrize("name", ["tx_ring", "tx_ring-twin"])
def test_ring_that_holds_no_batch_or_no_whole_blocks_is_refused(name: str, ring_frames: int) -> None:
    with pytest.raises(
        WorkloadError, match=rf"ring_frames {ring_frames}: .*power of two from 256 to 1048576"
    ):
        run(ENGINES[name], ring_frames=ring_frames, batch=200)


@pytest.mark.parametrize(
    ("frame_bytes", "asked", "geometry"),
    [
        (60, {}, (4096, 128, 4096)),
        (14, {"ring_frames": 64}, (64, 64, 4096)),
        (96, {}, (4096, 128, 4096)),
        (97, {}, (4096, 256, 4096)),
        (1514, {}, (4096, 2048, 4096)),
        (9014, {}, (512, 16384, 16384)),
        (65_550, {"batch": 1024}, (1024, 131_072, 131_072)),
    ],
)
@pytest.mark.skipif(mmap.PAGESIZE != 4096, reason="the expected blocks are of pages of 4096 bytes")
def test_ring_fits_the_frames_in_whole_blocks(
    frame_bytes: int, asked: dict[str, int], geometry: tuple[int, int, int]
) -> None:
    config = EngineConfig(**({"ifindex": 1, "batch": 64, "count": 1} | asked))
    ring = ring_geometry(FrameTable.of([bytes(14), bytes(frame_bytes)]), config)
    assert (ring.slots, ring.slot_bytes, ring.block_bytes) == geometry


@pytest.mark.parametrize(
    ("frames", "frame_bytes", "asked", "slots"),
    [
        (1000, 60, {}, 4000),
        (1000, 1514, {}, 4000),
        (3, 60, {}, 4032),
        (1001, 1514, {}, 4004),
        (4096, 60, {}, 4096),
        (1000, 60, {"batch": 1024}, 4000),
        # blocks of 32 slots hold 1001 frames a whole number of times only in 32032; 5000 frames fit no ring
        (1001, 60, {}, 4096),
        (5000, 60, {}, 4096),
        (300, 9014, {"batch": 512}, 512),
        (1000, 60, {"ring_frames": 4096}, 4096),
    ],
)
@pytest.mark.skipif(mmap.PAGESIZE != 4096, reason="the expected blocks are of pages of 4096 bytes")
def test_ring_holds_a_flow_a_whole_number_of_times_where_it_fits(
    frames: int, frame_bytes: int, asked: dict[str, int], slots: int
) -> None:
    config = EngineConfig(**({"ifindex": 1, "batch": 64, "count": 1} | asked))
    ring = ring_geometry(FrameTable.of([bytes(frame_bytes)] * frames), config)
    assert ring.slots == slots
    assert ring.ring_bytes % ring.block_bytes == 0


@pytest.mark.parametrize("ring_frames", [-64, 0, 32, 100, 128, 2**17])
@pytest.mark.parametrize("name", ["af_xdp", "af_xdp-twin"])
def test_xsk_ring_that_holds_no_batch_is_refused(name: str, ring_frames: int) -> None:
    with pytest.raises(WorkloadError, match=rf"ring_frames {ring_frames}: .*power of two from 256 to 65536"):
        run(ENGINES[name], ring_frames=ring_frames, batch=200)


@pytest.mark.parametrize("name", ["af_xdp", "af_xdp-twin"])
def test_xsk_frame_longer_than_a_page_is_refused_with_another_engine(name: str) -> None:
    with pytest.raises(WorkloadError, match=rf"holds {mmap.PAGESIZE}; take engine 'sendmmsg'"):
        run(ENGINES[name], FrameTable.of([bytes(60), bytes(mmap.PAGESIZE + 1)]))


@pytest.mark.parametrize("queue", [-1, 2**16])
@pytest.mark.parametrize("name", ["af_xdp", "af_xdp-twin"])
def test_xsk_queue_is_a_number_from_0(name: str, queue: int) -> None:
    with pytest.raises(WorkloadError, match=f"queue {queue}: TX queues are numbered from 0"):
        run(ENGINES[name], queue=queue)


@pytest.mark.parametrize(
    ("number", "frame_bytes", "asked", "geometry"),
    [
        (1, 60, {}, (2048, 1, 64, 2048, 4096)),
        (64, 64, {}, (2048, 64, 64, 2048, 4096)),
        (65, 65, {}, (2048, 65, 128, 2048, 12288)),
        (65_536, 60, {}, (2048, 65_536, 64, 2048, 4 << 20)),
        (65_537, 60, {}, (2048, 2048, 64, 2048, 131_072)),
        (3000, 1514, {}, (2048, 2048, 2048, 2048, 4 << 20)),
        (3000, 1514, {"ring_frames": 64}, (64, 64, 2048, 2048, 131_072)),
        (2000, 4096, {"batch": 1024}, (2048, 1024, 4096, 4096, 4 << 20)),
        (1, 60, {"stamp": True}, (2048, 2048, 64, 2048, 131_072)),
        (65, 1514, {"stamp": True, "ring_frames": 64}, (64, 64, 2048, 2048, 131_072)),
        (3, 1514, {"stamp": True, "ring_frames": 4096}, (4096, 2048, 2048, 2048, 4 << 20)),
    ],
)
@pytest.mark.skipif(mmap.PAGESIZE != 4096, reason="the expected memory is of pages of 4096 bytes")
def test_xsk_memory_holds_all_frames_or_what_may_be_on_its_way(
    number: int, frame_bytes: int, asked: dict[str, int], geometry: tuple[int, ...]
) -> None:
    config = EngineConfig(**({"ifindex": 1, "batch": 64, "count": 1} | asked))
    made = xsk_geometry(FrameTable.of([bytes(frame_bytes)] * number), config)
    assert msgspec.structs.astuple(made) == geometry
    assert made.slots >= config.batch or made.slots == number


def test_memory_that_may_not_be_locked_says_how_much_and_what_else() -> None:
    config = EngineConfig(ifindex=1, batch=64, count=1)
    said = no_locked_memory(xsk_geometry(FrameTable.of([bytes(60)]), config))
    assert "would not lock 4096 bytes" in said
    assert said.endswith("raise RLIMIT_MEMLOCK (ulimit -l), or take engine 'tx_ring'")


def test_ring_without_memory_offers_a_smaller_one() -> None:
    ring = RingGeometry(slots=1024, slot_bytes=128, block_bytes=4096)
    assert no_memory(ring, 256).endswith("ring of 1024 slots of 128 bytes; ask for ring_frames 512")
    odd = RingGeometry(slots=4000, slot_bytes=128, block_bytes=4096)
    assert no_memory(odd, 256).endswith("; ask for ring_frames 2048")
    assert no_memory(ring, 1024).endswith("; ask for ring_frames 512 and batch 512")


@pytest.mark.parametrize(("frame_bytes", "segments"), [(60, 64), (1514, 42), (9014, 7), (65_000, 1)])
def test_usual_super_packet_fits_an_ip_packet(frame_bytes: int, segments: int) -> None:
    for name in ("gso", "gso-twin"):
        assert ENGINES[name].usual_batch(FrameTable.of([bytes(frame_bytes)])) == segments


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("name", ["send", "send-twin"])
def test_send_takes_one_frame_a_call(name: str, batch: int) -> None:
    with pytest.raises(WorkloadError, match=rf"batch {batch}: .*exactly 1"):
        run(ENGINES[name], batch=batch)


@every_engine
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"count": None}, "neither count nor duration"),
        ({"count": -1}, "count -1"),
        ({"count": None, "duration_ns": 0}, "duration 0 ns"),
        ({"rate_pps": 0.0}, "rate 0 pps"),
        ({"rate_pps": -2.5}, "rate -2.5 pps"),
        ({"rate_pps": float("nan")}, "rate nan pps"),
        ({"rate_pps": float("inf")}, "rate inf pps"),
        ({"ifindex": 0}, "interface number 0"),
        ({"ifindex": 2**31}, "interface number 2147483648"),
        ({"count": 2**63}, "count 9223372036854775808"),
        ({"duration_ns": 2**63 - 1}, "duration 9223372036854775807 ns"),
        ({"cpu": -1}, "CPU -1"),
        ({"cpu": 2**31}, "CPU 2147483648"),
    ],
)
def test_request_without_sense_is_refused(engine: Engine, asked: dict[str, object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        run(engine, **asked)


@every_engine
def test_flow_without_frames_is_refused(engine: Engine) -> None:
    with pytest.raises(WorkloadError, match="no frame"):
        run(engine, FrameTable.of([]))


@pytest.mark.parametrize("name", ["send", "sendmmsg", "tx_ring", "gso"])
def test_engine_is_chosen_by_name(name: str) -> None:
    engine = choose(name)
    assert engine.name == name
    assert 1 <= engine.default_batch <= engine.max_batch


def test_unknown_engine_lists_those_that_exist() -> None:
    with pytest.raises(
        WorkloadError, match=r"no engine is called 'warp'; there are: send, sendmmsg, tx_ring, gso"
    ):
        choose("warp")


def test_engines_stay_lean_for_the_agent() -> None:
    code = "import labkit.engines.choose, labkit.engines.reference, sys; print(*sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert not {"numpy", "pandas", "scapy", "pyroute2", "sqlalchemy", "scipy"} & set(said.stdout.split())
