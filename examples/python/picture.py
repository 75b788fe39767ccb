"""A picture of which two machines compute a half each, and a third process writes the file.

    picture.py half 0          in one virtual machine
    picture.py half 1          in another one (or examples/library/picture.c: picture half 1)
    picture.py show FILE.png   anywhere on the pool; waits for both

The package vshmem and the standard library are all it needs. The object "picture" holds four numbers
of 32 bits (width, height, and whether each half is done) and a byte for each point.
"""
import struct
import sys
import time
import zlib

import vshmem

WIDTH, HEIGHT, HEAD = 240, 160, 16
MOST = 60


def memory():
    """The picture's memory: the process that comes first makes it."""
    try:
        return vshmem.SharedMemory("picture", create=True, size=HEAD + WIDTH * HEIGHT)
    except FileExistsError:
        return vshmem.SharedMemory("picture")


def steps(x, y):
    """How soon a point of the plane leaves the Mandelbrot set."""
    point, start = 0j, complex(x, y)
    for count in range(MOST):
        if abs(point) > 2:
            return count
        point = point * point + start
    return MOST


def compute(half):
    """The upper half is 0, the lower one 1."""
    picture = memory()
    head = picture.buf[:HEAD].cast("I")
    head[0], head[1] = WIDTH, HEIGHT
    for row in range(half * HEIGHT // 2, (half + 1) * HEIGHT // 2):
        y = (row - HEIGHT / 2) * 2.4 / HEIGHT
        for column in range(WIDTH):
            x = (column - WIDTH * 0.7) * 3.0 / WIDTH
            picture.buf[HEAD + row * WIDTH + column] = 255 - 255 * steps(x, y) // MOST
    head[2 + half] = 1
    head.release()
    print("half", half, "is done")


def chunk(kind, data):
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def show(path):
    """Writes it when both halves are there, and removes it from the pool."""
    picture = memory()
    while not (picture.buf[8] and picture.buf[12]):
        time.sleep(0.01)
    width, height = struct.unpack_from("<II", picture.buf)
    rows = (
        b"\0" + bytes(picture.buf[HEAD + row * width : HEAD + (row + 1) * width])
        for row in range(height)
    )
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(b"".join(rows))))
        file.write(chunk(b"IEND", b""))
    picture.unlink()
    print(path, "is written")


if sys.argv[1] == "half":
    compute(int(sys.argv[2]))
else:
    show(sys.argv[2])
