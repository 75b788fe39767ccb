"""Zenoh: large messages from one guest to the other. `sub COUNT BYTES` and `pub COUNT BYTES HOST`; round trips: `pong COUNT BYTES
shared|network` and `ping COUNT BYTES shared|network HOST`, which prints the median in microseconds."""

import statistics
import sys
import threading
import time

import zenoh
from zenoh import shm

role, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = zenoh.Config()
shared_memory = len(sys.argv) < 5 or sys.argv[4] != "network"
config.insert_json5("transport/shared_memory/enabled", "true" if shared_memory else "false")
config.insert_json5("scouting/multicast/enabled", "false")


def text(number):
    return number.to_bytes(8, "little") * (size // 8)


def subscribe():
    config.insert_json5("listen/endpoints", '["tcp/0.0.0.0:7447"]')
    got, shared, wrong = [], [], []

    def take(sample):
        words = sample.payload.to_bytes()
        shared.append(sample.payload.as_shm() is not None)
        wrong.append(words != text(int.from_bytes(words[:8], "little")))
        got.append(words[:8])

    session = zenoh.open(config)
    subscriber = session.declare_subscriber("large", take)
    print("listens", flush=True)
    end = time.monotonic() + 60
    while len(got) < count and time.monotonic() < end:
        time.sleep(0.05)
    print(f"{len(set(got))} of {count}, {sum(shared)} by shared memory, {sum(wrong)} wrong", flush=True)
    subscriber.undeclare()
    session.close()
    sys.exit(len(set(got)) != count or not all(shared) or any(wrong))


def publish():
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["tcp/{sys.argv[4]}:7447"]')
    session = zenoh.open(config)
    provider = shm.ShmProvider.default_backend(16 * size)
    publisher = session.declare_publisher("large", congestion_control=zenoh.CongestionControl.BLOCK)
    while not publisher.matching_status.matching:
        time.sleep(0.05)
    for number in range(count):
        room = provider.alloc(size, policy=shm.BlockOn(shm.GarbageCollect()))
        room[:] = text(number)
        publisher.put(room)
    # Its memory goes with it.
    while publisher.matching_status.matching:
        time.sleep(0.05)
    session.close()


def pong():
    config.insert_json5("listen/endpoints", '["tcp/0.0.0.0:7447"]')
    session = zenoh.open(config)
    back = session.declare_publisher("back", congestion_control=zenoh.CongestionControl.BLOCK)
    done = threading.Event()

    def answer(sample):
        if len(sample.payload) == 1:
            done.set()
        else:
            back.put(sample.payload)

    subscriber = session.declare_subscriber("there", answer)
    print("listens", flush=True)
    ended = done.wait(120)
    subscriber.undeclare()
    session.close()
    sys.exit(not ended)


def ping():
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["tcp/{sys.argv[5]}:7447"]')
    session = zenoh.open(config)
    provider = shm.ShmProvider.default_backend(16 * size)
    there = session.declare_publisher("there", congestion_control=zenoh.CongestionControl.BLOCK)
    came = threading.Semaphore(0)
    subscriber = session.declare_subscriber("back", lambda sample: came.release())
    while not there.matching_status.matching:
        time.sleep(0.05)
    times = []
    for _ in range(count + 20):
        room = provider.alloc(size, policy=shm.BlockOn(shm.GarbageCollect()))
        began = time.monotonic()
        there.put(room)
        if not came.acquire(timeout=20):
            sys.exit("no answer")
        times.append(time.monotonic() - began)
    print(f"{1e6 * statistics.median(times[20:]):.1f}")
    there.put(b"x")
    while there.matching_status.matching:
        time.sleep(0.05)
    subscriber.undeclare()
    session.close()


{"pub": publish, "sub": subscribe, "ping": ping, "pong": pong}[role]()
