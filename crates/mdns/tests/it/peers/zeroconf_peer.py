"""python-zeroconf as a peer: one JSON object a line on stdin and stdout, see zeroconf.rs beside it.

Arguments: the address of the interface, then the host's name, then all addresses to advertise.
Ends without a goodbye when it is killed, with one when stdin ends.
"""

import asyncio
import json
import sys
import time

from zeroconf import IPVersion, ServiceStateChange
from zeroconf.asyncio import (
    AsyncServiceBrowser,
    AsyncServiceInfo,
    AsyncZeroconf,
    AsyncZeroconfServiceTypes,
)

RESOLVE_MS = 3000


def say(value):
    print(json.dumps(value), flush=True)


def full_type(service_type):
    return service_type + ".local."


def strings_of(text):
    """The strings of a TXT record; an empty record is one empty string and has none."""
    strings, at = [], 0
    while at < len(text):
        length = text[at]
        strings.append(text[at + 1 : at + 1 + length])
        at += 1 + length
    return [string for string in strings if string]


def described(info):
    return {
        "host": info.server.rstrip(".") if info.server else None,
        "port": info.port,
        "addresses": [a.split("%")[0] for a in info.parsed_scoped_addresses(IPVersion.All)],
        "txt": [string.hex() for string in strings_of(info.text or b"")],
    }


class Peer:
    def __init__(self, zeroconf, host, addresses):
        self.zeroconf = zeroconf
        self.host = host
        self.addresses = addresses
        self.browsers = {}
        self.registered = {}
        self.resolving = {}
        # When the browser last had news of an instance.
        self.latest = {}
        # What was last told of an instance, to tell an update from a repetition.
        self.told = {}

    def changed(self, zeroconf, service_type, name, state_change):
        """Called by the browser, in the loop. The clock is read first: this is what a benchmark measures."""
        at_ns = time.monotonic_ns()
        event = {
            "at_ns": at_ns,
            "name": name[: -len(service_type) - 1],
            "type": service_type.removesuffix(".local."),
        }
        if state_change is ServiceStateChange.Removed:
            task = self.resolving.pop(name, None)
            if task is not None:
                task.cancel()
            self.told.pop(name, None)
            say({"event": "removed", **event})
            return
        if state_change is ServiceStateChange.Added:
            say({"event": "named", **event})
        self.latest[name] = at_ns
        if name not in self.resolving:
            self.resolving[name] = asyncio.ensure_future(self.tell(service_type, name, event))

    async def tell(self, service_type, name, event):
        """Resolves an instance until no change of it came meanwhile, and tells it if it is new or different."""
        seen_ns = None
        while seen_ns != self.latest[name]:
            seen_ns = self.latest[name]
            info = AsyncServiceInfo(service_type, name)
            complete = info.load_from_cache(self.zeroconf.zeroconf)
            complete = complete or await info.async_request(self.zeroconf.zeroconf, RESOLVE_MS)
        del self.resolving[name]
        now = described(info)
        before = self.told.get(name)
        if not complete or now == before:
            return
        self.told[name] = now
        event["at_ns"] = time.monotonic_ns()
        say({"event": "added" if before is None else "updated", **event, **now})

    async def browse(self, command):
        service_type = full_type(command["type"])
        if service_type not in self.browsers:
            self.browsers[service_type] = AsyncServiceBrowser(
                self.zeroconf.zeroconf, service_type, handlers=[self.changed]
            )

    async def types(self, command):
        found = await AsyncZeroconfServiceTypes.async_find(
            aiozc=self.zeroconf, timeout=command["seconds"]
        )
        return sorted(name.removesuffix(".local.") for name in found)

    async def resolve(self, command):
        service_type = full_type(command["type"])
        info = AsyncServiceInfo(service_type, command["name"] + "." + service_type)
        found = await info.async_request(self.zeroconf.zeroconf, command["limit_ms"])
        if not found:
            return None
        return {
            "event": "added",
            "at_ns": time.monotonic_ns(),
            "name": command["name"],
            "type": command["type"],
            **described(info),
        }

    def service(self, command):
        service_type = full_type(command["type"])
        strings = [bytes.fromhex(string) for string in command["txt"]]
        return AsyncServiceInfo(
            service_type,
            command["name"] + "." + service_type,
            port=command["port"],
            properties=b"".join(bytes([len(string)]) + string for string in strings),
            server=self.host + ".local.",
            parsed_addresses=self.addresses,
        )

    async def register(self, command):
        """Answers once the name is probed for; the announcements follow."""
        info = self.service(command)
        announcing = await self.zeroconf.async_register_service(info)
        self.registered[info.name] = (info, announcing)

    async def update(self, command):
        info = self.service(command)
        await self.registered[info.name][1]
        announcing = await self.zeroconf.async_update_service(info)
        self.registered[info.name] = (info, announcing)

    async def unregister(self, command):
        """Answers once all goodbyes are out."""
        info, announcing = self.registered.pop(command["name"] + "." + full_type(command["type"]))
        # zeroconf goes on announcing what was withdrawn meanwhile, and leaves a ghost.
        await announcing
        await (await self.zeroconf.async_unregister_service(info))

    async def close(self):
        for _, announcing in self.registered.values():
            await announcing
        await self.zeroconf.async_close()

    async def carry_out(self, command):
        answer = {"tag": command["tag"]}
        try:
            answer["ok"] = await getattr(self, command["verb"])(command)
        except Exception as error:
            answer["error"] = repr(error)
        say(answer)


async def main():
    interface, host, *addresses = sys.argv[1:]
    ipv6 = any(":" in address for address in addresses)
    version = IPVersion.All if ipv6 else IPVersion.V4Only
    # IPv6 is joined by interface, for which zeroconf takes an address of it.
    interfaces = [interface] + [address for address in addresses if ":" in address]
    zeroconf = AsyncZeroconf(interfaces=interfaces, ip_version=version)
    await zeroconf.zeroconf.async_wait_for_start()
    peer = Peer(zeroconf, host, addresses)
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say({"ready": True})
    tasks = set()
    while line := await reader.readline():
        task = asyncio.ensure_future(peer.carry_out(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await peer.close()


asyncio.run(main())
