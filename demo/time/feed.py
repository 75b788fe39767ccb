"""A receiver of satellite time, pretended: NMEA sentences with this machine's time, each second, to each client that connects to port 4000."""
import functools
import operator
import socket
import time

listener = socket.create_server(("127.0.0.1", 4000))
print("listening", flush=True)
connection, _ = listener.accept()
second = int(time.time()) + 1
while True:
    time.sleep(max(0, second - time.time()))
    utc = time.gmtime(second)
    for sentence in (
        time.strftime("GPRMC,%H%M%S.00,A,4807.038,N,01131.000,E,0.0,0.0,%d%m%y,,,A", utc),
        time.strftime("GPGGA,%H%M%S.00,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,", utc),
    ):
        checksum = functools.reduce(operator.xor, sentence.encode())
        connection.sendall(f"${sentence}*{checksum:02X}\r\n".encode())
    second += 1
