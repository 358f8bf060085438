"""What schemathesis cannot know by itself: leases, sessions of both kinds and registrations that exist, and that nobody should
wait for an hour or read a stream without end."""

import itertools
import json
import urllib.request

import schemathesis

COUNTER = itertools.count()


def make(base_url, path, body):
    request = urllib.request.Request(
        base_url.rstrip("/") + path, json.dumps(body).encode(), {"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def lease(case, number):
    body = {"resources": [f"hooks/{number}"], "holder": "hooks"}
    if case.path.endswith("/activate"):
        body["reserve_ms"] = 60_000
    made = make(case.operation.base_url, "/v1/leases", body)
    if case.path.endswith(("/reclaim", "/acknowledge")):
        make(case.operation.base_url, f"/v1/leases/{made['lease_id']}/revoke", {"reclaim": False})
    return made


def stream(case, number):
    body = {"type": "stream.start", "resources": [f"hooks/{number}"]}
    if case.path.endswith("/activate"):
        body["start_timeout"] = 600
    return make(case.operation.base_url, "/api/v3/intents", body)


def registration(case, number):
    service = {"name": f"hooks {number}", "type": "_http._tcp", "port": 8080}
    made = make(case.operation.base_url, "/v1/mdns/services", service)["registered"]
    if case.path.endswith("/revive"):
        make(case.operation.base_url, f"/v1/mdns/admin/registrations/{made['id']}/drain", {})
    return made


def poller(case, number):
    """A poller of the group `hooks` with a target."""
    facts = {"instance": f"hooks-{number}", "weight": 1, "status": "online", "fixed_name": False}
    for name in (f"@poller/hooks-{number}", f"s{number}"):
        body = {"resources": [f"poll/hooks/{name}"], "holder": f"hooks-{number}", "attachment": facts}
        make(case.operation.base_url, "/v1/leases", body)
    return {"poller": f"hooks-{number}", "target": f"s{number}"}


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body if isinstance(case.body, dict) else None
    if body is not None and isinstance(body.get("wait_ms"), int) and body["wait_ms"] > 5:
        body["wait_ms"] = 5
    if case.path in ("/v1/mdns/browse", "/v1/mdns/events"):
        query = dict(case.query or {})
        # What is no number stays as it is: it has to be refused.
        if str(query.get("idle_for", "0")).isdigit():
            query["idle_for"] = 1
        case.query = query
    number = next(COUNTER)
    # Every other case keeps what was generated.
    if number % 2 == 0:
        return
    parameters = case.path_parameters or {}
    if "lease_id" in parameters:
        made = lease(case, number)
        case.path_parameters["lease_id"] = made["lease_id"]
        if body is not None and "epoch" in body:
            body["epoch"] = made["epoch"]
            body.pop("holder", None) if not case.path.endswith("/rebind") else None
        if body is not None and "to_session" in body:
            body["to_session"] = make(case.operation.base_url, "/v1/sessions", {"holder": "hooks"})["session"]
    if "session" in parameters:
        made = make(case.operation.base_url, "/v1/sessions", {"holder": "hooks"})
        case.path_parameters["session"] = made["session"]
    if "session_id" in parameters:
        made = stream(case, number)
        case.path_parameters["session_id"] = made["session_id"]
        if body is not None and "epoch" in body:
            body["epoch"] = made["epoch"]
    if case.path == "/api/v3/intents" and body is not None:
        if body.get("type") == "stream.stop":
            body["session_id"] = stream(case, number)["session_id"]
        else:
            # Pools are taken from by those cases that keep what was generated.
            body.pop("pool", None)
            body.pop("count", None)
            body["resources"] = [f"hooks/{number}"]
    if "group" in parameters:
        made = poller(case, number)
        case.path_parameters["group"] = "hooks"
        for field in ("poller", "target"):
            if body is not None and isinstance(body.get(field), str):
                body[field] = made[field]
    if case.path == "/v1/why":
        case.query = {"resource": f"hooks/{number}"}
        make(case.operation.base_url, "/v1/leases", {"resources": [f"hooks/{number}"], "holder": "hooks"})
    if "id" in parameters and "/mdns/" in case.path:
        made = registration(case, number)
        case.path_parameters["id"] = made["id"]
        if body is not None and "epoch" in body:
            body["epoch"] = made["epoch"]
    if case.path == "/v1/mdns/resolve":
        registration(case, number)
        case.query = {"name": f"hooks {number}._http._tcp.local"}
