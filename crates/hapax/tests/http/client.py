"""Drives the example of payments through all answers, as a client in another language: with requests, then with httpx.

client.py URL: exits with 0 where everything is as it should be, else with the first difference.
"""

import concurrent.futures
import sys
import time
import uuid

import httpx
import requests

URL = sys.argv[1]


def check(what, got, expected):
    if got != expected:
        raise SystemExit(f"{what}: {got!r} instead of {expected!r}")


def key():
    return f'"{uuid.uuid4()}"'


def run(name, client):
    def post(card="visa", cents=4200, fields=None, **more):
        headers = {"Authorization": f"Bearer {name}", "Idempotency-Key": key()}
        headers.update(fields or {})
        headers = {field: value for field, value in headers.items() if value is not None}
        body = {"card": card, "cents": cents}
        return client.post(f"{URL}/payments", json=body, headers=headers, timeout=20, **more)

    def charges():
        return int(client.get(f"{URL}/charges").text)

    def refused(what, answer, status, code):
        check(what, answer.status_code, status)
        check(what, answer.headers["content-type"], "application/problem+json")
        check(what, answer.json()["code"], code)
        check(what, answer.json()["status"], status)
        assert 'rel="describedby"' in answer.headers["link"], what

    before = charges()

    # A payment, and its retries.
    one = {"Idempotency-Key": key()}
    first = post(fields=one)
    check("a payment", first.status_code, 201)
    check("a payment", "idempotent-replayed" in first.headers, False)
    for _ in range(2):
        again = post(fields=one)
        check("a retry", (again.status_code, again.content), (201, first.content))
        check("a retry", again.headers["idempotent-replayed"], "true")
        check("a retry", again.headers["content-type"], first.headers["content-type"])
        check("a retry", again.headers["idempotent-expires"], first.headers["idempotent-expires"])
    check("one charge", charges(), before + 1)

    # Keys that are none, and keys of others.
    refused("no key", post(fields={"Idempotency-Key": None}), 400, "http.key_missing")
    refused("a bare key", post(fields={"Idempotency-Key": str(uuid.uuid4())}), 400, "http.key_invalid")
    refused("an empty key", post(fields={"Idempotency-Key": '""'}), 400, "http.key_invalid")
    refused("a long key", post(fields={"Idempotency-Key": '"' + "x" * 256 + '"'}), 400, "http.key_invalid")
    refused("nobody's key", post(fields={"Authorization": None}), 403, "http.caller_unknown")
    refused("another amount", post(cents=1, fields=one), 422, "idempotency.key_reused")
    other = post(fields={**one, "Authorization": "Bearer somebody else"})
    check("another payer", (other.status_code, "idempotent-replayed" in other.headers), (201, False))
    check("two charges", charges(), before + 2)

    # A refusal of the bank is final; one that is put off is not.
    declined = {"Idempotency-Key": key()}
    check("declined", post("declined", fields=declined).status_code, 402)
    again = post("declined", fields=declined)
    check("declined again", (again.status_code, again.headers["idempotent-replayed"]), (402, "true"))
    busy = {"Idempotency-Key": key()}
    check("put off", post("busy", fields=busy).status_code, 503)
    again = post("busy", fields=busy)
    check("tried again", (again.status_code, "idempotent-replayed" in again.headers), (201, False))
    check("three charges", charges(), before + 3)

    # Nobody knows.
    lost = {"Idempotency-Key": key()}
    refused("a panic", post("lost", fields=lost), 500, "idempotency.unknown")
    again = post("lost", fields=lost)
    refused("after a panic", again, 500, "idempotency.unknown")
    check("after a panic", again.headers["idempotent-replayed"], "true")
    check("four charges", charges(), before + 4)

    # Several at once.
    slow = {"Idempotency-Key": key()}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(post, "slow", fields=slow) for _ in range(8)]
        answers = [answer.result() for answer in answers]
    statuses = sorted(answer.status_code for answer in answers)
    check("one of eight", statuses, [201] + [409] * 7)
    for answer in answers:
        if answer.status_code == 409:
            refused("in flight", answer, 409, "idempotency.in_flight")
            check("in flight", answer.headers["retry-after"], "1")
    check("then its response", post("slow", fields=slow).headers["idempotent-replayed"], "true")
    check("five charges", charges(), before + 5)

    # A client that gives up, and tries again.
    given_up = {"Idempotency-Key": key()}
    try:
        client.post(
            f"{URL}/payments",
            json={"card": "slow", "cents": 1},
            headers={"Authorization": f"Bearer {name}", **given_up},
            timeout=0.2,
        )
        raise SystemExit("a slow payment was fast")
    except (requests.exceptions.Timeout, httpx.TimeoutException):
        pass
    while (again := post("slow", 1, fields=given_up)).status_code == 409:
        time.sleep(int(again.headers["retry-after"]))
    check("after giving up", (again.status_code, again.headers.get("idempotent-replayed")), (201, "true"))
    check("six charges", charges(), before + 6)

    # Bodies.
    large = client.post(
        f"{URL}/payments",
        headers={"Authorization": f"Bearer {name}", "Idempotency-Key": key()},
        **{"content" if name == "httpx" else "data": b"x" * ((1 << 20) + 1)},
    )
    refused("a large body", large, 413, "http.body_too_large")

    # The limit of the address.
    fields = client.get(f"{URL}/charges").headers
    check("the policy", fields["ratelimit-policy"], '"by_address";q=100;w=60')
    assert fields["ratelimit"].startswith('"by_address";r='), fields["ratelimit"]


def until_limited(client):
    for _ in range(101):
        answer = client.get(f"{URL}/charges")
        if answer.status_code == 429:
            check("limited", answer.json()["violated-policies"], ["by_address"])
            kind = "https://iana.org/assignments/http-problem-types#quota-exceeded"
            check("limited", answer.json()["type"], kind)
            assert 1 <= int(answer.headers["retry-after"]) <= 60, answer.headers["retry-after"]
            assert answer.headers["ratelimit"].startswith('"by_address";r=0;t='), answer.headers["ratelimit"]
            return
    raise SystemExit("the limit was never reached")


session = requests.Session()
session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=8))
run("requests", session)
with httpx.Client(limits=httpx.Limits(max_connections=8), timeout=20) as client:
    run("httpx", client)
    until_limited(client)
print("all answers are right")
