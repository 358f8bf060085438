"""A poller as they were before this one: plain leases and node keys in Redis, FNV-1a, no fences.

    peer.py SOCKET INSTANCE TARGET...

Its keys and scripts are those of the older programs; only its rounds are quicker, so that a test need not wait for
them. Every poll is written down in Redis together with who holds the lease at that moment. SIGTERM: it lets go of
what it has and leaves.
"""

import signal
import sys
import time

import redis

TTL_MS = 30000
ROUND_S = 0.1

RENEW = """
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
  return 0
end
"""

RELEASE = """
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end
"""

# What a poll does: the test reads it.
POLL = """
return redis.call("RPUSH", KEYS[2], ARGV[1] .. " " .. (redis.call("GET", KEYS[1]) or "nobody"))
"""


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def preferred_owner(target, nodes):
    best_node, best_weight = "", 0
    for node in nodes:
        weight = fnv1a((node + target).encode())
        if weight > best_weight:
            best_node, best_weight = node, weight
    return best_node


class Peer:
    def __init__(self, socket, instance, targets):
        self.redis = redis.Redis(unix_socket_path=socket, decode_responses=True)
        self.renew = self.redis.register_script(RENEW)
        self.release = self.redis.register_script(RELEASE)
        self.poll = self.redis.register_script(POLL)
        self.instance = instance
        self.targets = targets
        self.owned = set()
        self.stopping = False

    def lease(self, target):
        return f"poll:lease:{target}"

    def round(self):
        self.redis.set(f"poll:node:{self.instance}", "1", px=TTL_MS)
        start = len("poll:node:")
        nodes = sorted({key[start:] for key in self.redis.scan_iter(match="poll:node:*")})
        for target in self.targets:
            is_ours = preferred_owner(target, nodes) == self.instance
            if target in self.owned:
                if not self.renew(keys=[self.lease(target)], args=[self.instance, TTL_MS]):
                    self.owned.discard(target)
                elif not is_ours:
                    self.let_go(target)
            elif is_ours:
                taken = self.redis.set(self.lease(target), self.instance, nx=True, px=TTL_MS)
                if taken:
                    self.owned.add(target)
        for target in sorted(self.owned):
            self.poll(keys=[self.lease(target), f"polled:{target}"], args=[self.instance])

    def let_go(self, target):
        self.owned.discard(target)
        self.release(keys=[self.lease(target)], args=[self.instance])

    def leave(self):
        for target in sorted(self.owned):
            self.let_go(target)
        self.redis.delete(f"poll:node:{self.instance}")


def main():
    socket, instance, *targets = sys.argv[1:]
    peer = Peer(socket, instance, targets)

    def stop(*_):
        peer.stopping = True

    signal.signal(signal.SIGTERM, stop)
    while not peer.stopping:
        peer.round()
        time.sleep(ROUND_S)
    peer.leave()


main()
