"""Listens to mDNS without taking part in it, and says every record as one JSON object a line, see zeroconf.rs.

Arguments: the name of the interface, then the IPv4 address of it.
"""

import json
import select
import socket
import struct
import sys
import time

from zeroconf import DNSIncoming, DNSPointer, DNSService
from zeroconf.const import _TYPES

PORT = 5353
GROUP = "224.0.0.251"
GROUP6 = "ff02::fb"
# The module socket has no name for it.
SO_RCVBUFFORCE = 33


def listening(family, group, joined):
    """Bound to the group, not to any address: otherwise it would take unicast answers from the peers beside it."""
    level, option, membership = joined
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # A thousand goodbyes come at once.
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    sock.bind(group)
    sock.setsockopt(level, option, membership)
    return sock


def say(value):
    print(json.dumps(value), flush=True)


def records_of(packet):
    for record in packet.answers():
        told = {
            "name": record.name,
            "type": _TYPES.get(record.type, str(record.type)).upper(),
            "ttl": int(record.ttl),
        }
        if isinstance(record, DNSPointer):
            told["target"] = record.alias
        if isinstance(record, DNSService):
            told["target"] = record.server
        yield told


def main():
    interface, address = sys.argv[1:]
    index = socket.if_nametoindex(interface)
    membership = socket.inet_aton(GROUP) + socket.inet_aton(address) + struct.pack("@i", index)
    sockets = [
        listening(
            socket.AF_INET,
            (GROUP, PORT),
            (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership),
        )
    ]
    membership6 = socket.inet_pton(socket.AF_INET6, GROUP6) + struct.pack("@I", index)
    try:
        sockets.append(
            listening(
                socket.AF_INET6,
                (GROUP6, PORT, 0, index),
                (socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership6),
            )
        )
    except OSError as error:
        print(f"without IPv6: {error}", file=sys.stderr, flush=True)
    say({"ready": True})
    while True:
        for sock in select.select(sockets, [], [])[0]:
            data, source = sock.recvfrom(65536)
            at_ns = time.monotonic_ns()
            packet = DNSIncoming(data)
            if not packet.valid:
                say({"broken": data.hex(), "source": source[0], "at_ns": at_ns})
                continue
            for told in records_of(packet):
                # What a query lists it knows already or asks to have; only a response announces or withdraws.
                told["is_response"] = packet.is_response()
                told["source"] = source[0].split("%")[0]
                told["at_ns"] = at_ns
                say(told)


main()
