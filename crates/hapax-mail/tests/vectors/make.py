"""Makes the vectors of this folder, from the written rules alone and not from the crate.

    python3 make.py

A file is written once for each version of the rules and never changed afterwards: what it says must hold as long as
records of that version live.
"""

import base64
import hashlib
import hmac
import json
import pathlib
from datetime import datetime

HERE = pathlib.Path(__file__).parent


def record(tag, content):
    return bytes([tag]) + len(content).to_bytes(8, "big") + content


def text(tag, content):
    return b"" if content is None else record(tag, content.encode())


def address(tag, given):
    name, _, spec = given.rpartition("<")
    local, _, domain = spec.rstrip(">").rpartition("@")
    domain = domain.lower().encode("idna").decode()
    name = name.strip().strip('"') or None
    return record(tag, text(1, name) + text(2, local) + text(3, domain))


def listed(value):
    return [] if value is None else [value] if isinstance(value, str) else value


def lines(value):
    return None if value is None else value.replace("\r\n", "\n").replace("\r", "\n")


def bracketed(ids):
    return [f"<{i.strip('<>')}>" for i in ids]


def fingerprint(m, strict):
    out = b""
    for tag, field in enumerate(["from", "sender", "to", "cc", "bcc", "reply_to"], 1):
        out += b"".join(address(tag, a) for a in listed(m.get(field)))
    out += text(7, m.get("subject")) + text(8, lines(m.get("text"))) + text(9, lines(m.get("html")))
    for name, values in m.get("headers", {}).items():
        out += b"".join(record(10, text(1, name.lower()) + text(2, v)) for v in listed(values))
    for a in m.get("attachments", []):
        inner = text(1, a.get("filename")) + text(2, a["content_type"]) + text(3, a.get("cid"))
        if strict:
            inner += record(4, hashlib.sha256(base64.b64decode(a["base64"])).digest())
        out += record(11, inner)
    if "in_reply_to" in m:
        out += text(12, bracketed([m["in_reply_to"]])[0])
    if m.get("references"):
        out += record(13, b"".join(text(1, i) for i in bracketed(m["references"])))
    if "send_at" in m:
        out += record(14, int(datetime.fromisoformat(m["send_at"]).timestamp() * 1000).to_bytes(8, "big"))
    tracking = m.get("tracking", {})
    if tracking:
        flags = [(1, "opens"), (2, "clicks")]
        out += record(15, b"".join(record(t, bytes([tracking[n]])) for t, n in flags if n in tracking))
    for name, value in sorted(m.get("metadata", {}).items()):
        out += record(16, text(1, name) + text(2, value))
    if m.get("tags"):
        out += record(17, b"".join(text(1, t) for t in m["tags"]))
    if "unsubscribe" in m:
        out += record(18, text(1, m["unsubscribe"].get("url")) + text(2, m["unsubscribe"].get("mailto")))
    return "1:" + hashlib.sha256(b"hapax mail message 1\0" + out).hexdigest()


def raw_fingerprint(sender, to):
    def spec(given):
        local, _, domain = given.rpartition("@")
        return f"{local}@{domain.lower().encode('idna').decode()}" if local else given

    out = text(1, spec(sender)) + b"".join(text(2, spec(t)) for t in to)
    return "1:" + hashlib.sha256(b"hapax mail envelope 1\0" + out).hexdigest()


def message_id(secret, namespace, scope, key, fingerprint, from_domain):
    parts = ["hapax mail message-id 1", namespace, scope, key, fingerprint]
    data = b"".join(len(p.encode()).to_bytes(8, "big") + p.encode() for p in parts)
    digest = hmac.new(secret.encode(), data, hashlib.sha256).digest()
    return f"<{base64.b32encode(digest).decode().lower()[:26]}@{from_domain}>"


PLAIN = {"from": "shop@example.com", "to": "ada@example.com", "text": "Welcome aboard.\r\n"}
LINES = [
    PLAIN,
    PLAIN | {"subject": ""},
    PLAIN | {"subject": "Welcome", "to": ["Ada <ada@example.com>", "\"B, C\" <b@EXAMPLE.com>"], "html": "<p>\rhi</p>"},
    PLAIN | {"to": "jørgen@bücher.example", "from": "Müller <m@bücher.example>"},
    PLAIN | {"tracking": {"clicks": False}, "metadata": {"b": "2", "a": "1"}, "tags": ["x", "y"]},
    {
        "from": ["a@example.com", "b@example.com"],
        "sender": "post@example.com",
        "to": "ada@example.com",
        "cc": ["c@example.com"],
        "bcc": "d@example.com",
        "reply_to": ["r@example.com", "s@example.com"],
        "subject": "Grüße",
        "text": "",
        "html": "<img src=\"cid:logo\">",
        "headers": {"X-One": "1", "x-TWO": ["2", ""]},
        "attachments": [
            {"filename": "a.pdf", "content_type": "application/pdf", "base64": "JVBERg=="},
            {"content_type": "image/png", "base64": "", "cid": "logo"},
        ],
        "in_reply_to": "1@example.com",
        "references": ["<0@example.com>", "1@example.com"],
        "send_at": "2030-01-31T09:00:00+00:00",
        "tracking": {"opens": True, "clicks": False},
        "metadata": {"order": "7"},
        "tags": ["welcome"],
        "unsubscribe": {"url": "https://example.com/u", "mailto": "mailto:leave@example.com"},
        "idempotency_key": "not part of it",
        "message_id": "<nor.this@example.com>",
    },
]
RAW = [("shop@example.com", ["ada@example.com", "B@EXAMPLE.com"]), ("", ["x@bücher.example"])]
IDS = [
    ("secret", "default", "mail", "welcome:1", fingerprint(PLAIN, False), "example.com"),
    ("", "", "mail:smtp", "schlüssel\0{}", "none", "xn--bcher-kva.example"),
]


def write(name, value):
    (HERE / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


write(
    "fingerprint-v1.json",
    {
        "messages": [{"line": m, "fingerprint": fingerprint(m, False), "strict": fingerprint(m, True)} for m in LINES],
        "raw": [{"from": f, "to": t, "fingerprint": raw_fingerprint(f, t)} for f, t in RAW],
    },
)
NAMES = ["secret", "namespace", "scope", "key", "fingerprint", "from_domain"]
write("message-id-v1.json", [dict(zip(NAMES, given)) | {"message_id": message_id(*given)} for given in IDS])
