"""PyTorch: a tensor whose memory is a file below /dev/shm. `make` waits until `use` has looked at it and answered; `send` passes
tensors between processes by the file_system strategy."""

import sys
import time

import torch
import torch.multiprocessing

COUNT = 1 << 20


def tensor():
    return torch.from_file("/dev/shm/tensor", shared=True, size=COUNT, dtype=torch.int64)


def make():
    words = tensor()
    words.copy_(torch.arange(COUNT))
    print("made", flush=True)
    end = time.monotonic() + 60
    while int(words[0]) != -1 and time.monotonic() < end:
        time.sleep(0.01)
    return int(words[0]) == -1


def use():
    words = tensor()
    equal = torch.equal(words, torch.arange(COUNT))
    words[0] = -1 if equal else -2
    return equal


def double(queue, back):
    words = queue.get()
    words *= 2
    back.put(words)


def send():
    torch.multiprocessing.set_sharing_strategy("file_system")
    queue, back = torch.multiprocessing.Queue(), torch.multiprocessing.Queue()
    child = torch.multiprocessing.Process(target=double, args=(queue, back))
    child.start()
    words = torch.arange(COUNT)
    queue.put(words)
    doubled = back.get(timeout=60)
    equal = torch.equal(words, 2 * torch.arange(COUNT)) and torch.equal(doubled, words)
    child.join()
    return equal


if __name__ == "__main__":
    sys.exit(not {"make": make, "use": use, "send": send}[sys.argv[1]]())
