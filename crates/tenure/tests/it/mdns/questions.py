"""Listens to mDNS without taking part in it, and says every question as one JSON object a line, see discovering.rs.

Argument: the IPv4 address of the interface.
"""

import json
import socket
import sys

from zeroconf import DNSIncoming

GROUP = ("224.0.0.251", 5353)

sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
sock.bind(GROUP)
membership = socket.inet_aton(GROUP[0]) + socket.inet_aton(sys.argv[1])
sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
print(json.dumps({"ready": True}), flush=True)
while True:
    data, source = sock.recvfrom(65536)
    for question in DNSIncoming(data).questions:
        print(json.dumps({"source": source[0], "name": question.name}), flush=True)
