"""Reads mails with Python's own parser and prints what a reader would see, one JSON object a line."""

import email
import email.header
import email.policy
import email.utils
import hashlib
import json
import sys


def addresses(mail, name):
    """By the older functions: the newer ones of Python 3.11 put spaces between the encoded words of a name."""
    field = mail[name]
    if field is None:
        return []
    pairs = email.utils.getaddresses([field.replace("\r\n", "")])
    return [[str(email.header.make_header(email.header.decode_header(name))), spec] for name, spec in pairs if spec]


def text(mail, kind):
    part = mail.get_body(preferencelist=(kind,))
    return None if part is None else part.get_content()


def view(path):
    with open(path, "rb") as file:
        # As text, since a header may be UTF-8; the parser takes undecoded bytes for another encoding.
        text_of_file = file.read().decode("utf-8")
    mail = email.message_from_string(text_of_file, policy=email.policy.SMTPUTF8)
    fields = email.message_from_string(text_of_file, policy=email.policy.compat32)
    parts = [part for part in mail.walk() if part.get_content_disposition() in ("attachment", "inline")]
    defects = [d for part in mail.walk() for d in part.defects]
    defects += [d for value in mail.values() for d in value.defects]
    # True, and what SMTPUTF8 is for.
    defects = [str(d) for d in defects if "non-ASCII" not in str(d)]
    return {
        "from": addresses(fields, "from"),
        "to": addresses(fields, "to"),
        "cc": addresses(fields, "cc"),
        "bcc": addresses(fields, "bcc"),
        "reply_to": addresses(fields, "reply-to"),
        "subject": mail["subject"] or "",
        "own": mail["x-own"],
        "message_id": mail["message-id"],
        "references": (mail["references"] or "").split(),
        "date": mail["date"].datetime.isoformat(),
        "text": text(mail, "plain"),
        "html": text(mail, "html"),
        "attachments": [
            {
                "filename": part.get_filename(),
                "type": part.get_content_type(),
                "cid": part["content-id"],
                "sha256": hashlib.sha256(content(part)).hexdigest(),
            }
            for part in parts
        ],
        "defects": defects,
    }


def content(part):
    if part.get_content_type() == "message/rfc822":
        return part.get_payload(0).as_bytes(policy=email.policy.SMTPUTF8)
    return part.get_payload(decode=True)


for name in sys.stdin.read().splitlines():
    print(json.dumps(view(name)))
