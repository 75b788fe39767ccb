"""Zenoh: large messages from one guest to the other. `sub COUNT BYTES` and `pub COUNT BYTES HOST`."""

import sys
import time

import zenoh
from zenoh import shm

role, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = zenoh.Config()
config.insert_json5("transport/shared_memory/enabled", "true")
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


publish() if role == "pub" else subscribe()
