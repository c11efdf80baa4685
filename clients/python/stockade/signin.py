"""What a wallet may sign: a text (EIP-4361) for this server, of this wallet, and nothing else. A server that lies could
otherwise sign in elsewhere in our name."""
from __future__ import annotations

import re
from typing import Any

from .errors import StockadeError

_WANTS = " wants you to sign in with your Ethereum account:"
_REST = re.compile(r"\n(?:[ -~]+\n)?\nURI: [!-~]+\nVersion: 1\nChain ID: [0-9]+\nNonce: ([0-9A-Za-z]+)\nIssued At: [!-~]+"
                   r"(?:\nExpiration Time: [!-~]+)?(?:\nNot Before: [!-~]+)?(?:\nRequest ID: [!-~]*)?")
_PLAIN = re.compile(r"Sign this message to authenticate with Tangle Sandbox\.\n\nNonce: ([0-9A-Za-z]+)\nExpires: [0-9]+")
_TEXT_MAX = 4096


def _refusal(message: str, hint: str = "") -> StockadeError:
    return StockadeError(0, "BAD_CHALLENGE", f"nothing was signed: {message}", hint)


def _same(found: str, wanted: str, usual: str) -> bool:
    """The usual port may be named, or not."""
    return found.lower() in (wanted, wanted + usual)


def check_text(challenge: Any, scheme: str, address: str, wallet: str, plain_text: bool) -> str:
    """The text of a challenge, if it may be signed. address: host[:port] of the server, without the usual port."""
    text, nonce = challenge.get("message"), challenge.get("nonce")
    if not isinstance(text, str) or not isinstance(nonce, str) or len(text) > _TEXT_MAX:
        raise _refusal("the server gives no text to be signed")
    plain = _PLAIN.fullmatch(text)
    if plain and plain_text and plain[1] == nonce:
        return text
    if plain:
        raise _refusal("the server wants the older plain text signed, which names no server: whoever gets it could sign in "
                       "elsewhere in your name", "plain_text=True signs it all the same")
    first, _, rest = text.partition("\n")
    second, _, rest = rest.partition("\n")
    domain = first[:-len(_WANTS)]
    usual = ":443" if scheme == "https" else ":80"
    own = usual if address.endswith("]") or ":" not in address else ""  # where the port is not the usual one, it is named
    if not first.endswith(_WANTS):
        raise _refusal("the server wants a signature for something else than a sign-in")
    if not _same(domain, address, own):
        raise _refusal(f"the text is for {domain[:100]!r}, and not for '{address}'",
                       "if that is the right server, use its name in the URL")
    if second.lower() != wallet.lower():
        raise _refusal(f"the text is for another wallet, {second[:42]!r}")
    lines = rest.split("\n")
    uris = [line[5:] for line in lines if line.startswith("URI: ")]
    if len(uris) != 1 or not _same(uris[0], f"{scheme}://{address}", own):
        raise _refusal(f"the text has not '{scheme}://{address}' as its one URI")
    if any(line.startswith("Resources:") for line in lines):
        raise _refusal("the text gives away resources")
    found = _REST.fullmatch(rest)
    if not found or found[1] != nonce:
        raise _refusal("the text is not one of EIP-4361, or of another challenge")
    return text
