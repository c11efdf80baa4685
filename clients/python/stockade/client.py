"""The front door: signing in, sandboxes, snapshots, tokens for machines, events, and how the host is."""
from __future__ import annotations

import ssl
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, cast
from urllib.parse import urlsplit

from .errors import StockadeError
from .ledger import LedgerEvent, ledger_events
from .profiles import Profiles
from .sandbox import Sandbox
from .signin import check_text
from .transport import Body, Query, Response, Transport, split_origin
from .types import CapabilityToken, Challenge, Diff, EventPage, Sample, SandboxInfo, Session, Snapshot, WhoAmI

Signer = Callable[[str], str]


class Client:
    """
        client = Client("https://api.example.org")
        client.sign_in(address, sign)       # sign(text) gives the EIP-191 signature of a wallet, 0x…
        client = Client(url, token="…")     # a session's token, or a capability

    http:// is for this machine alone, unless insecure_http says otherwise: the token could be read on the way.
    timeout is for each answer; streams, and commands that are waited for, may take as long as they take. One client may be
    used by several threads.
    """

    def __init__(self, url: str, *, token: Optional[str] = None, timeout: float = 150,
                 context: Optional[ssl.SSLContext] = None, insecure_http: bool = False) -> None:
        self._t = Transport(url, timeout, context, insecure_http)
        self._t.token = token
        self.sandboxes = Sandboxes(self._t)
        self.snapshots = Snapshots(self._t)
        self.profiles = Profiles(self._t)
        self.tokens = Tokens(self._t)
        self.operator = Operator(self._t)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends idle connections. The session goes on: sign_out() ends that."""
        self._t.close()

    # --- sign-in

    @property
    def token(self) -> Optional[str]:
        return self._t.token

    def challenge(self, address: Optional[str] = None) -> Challenge:
        return cast(Challenge, self._t.call("POST", "/api/auth/challenge", body={"address": address}))

    def sign_in(self, address: str, sign: Signer, *, plain_text: bool = False) -> Session:
        """With a wallet. The text names this server and is good once; one that does not is never signed. plain_text: the
        older text, which names no server, is signed too."""
        challenge = self.challenge(address)
        text = check_text(challenge, self._t.scheme, self._t.address, address, plain_text)
        return self._session({"nonce": challenge["nonce"], "signature": sign(text)})

    def sign_in_with_link(self, link: str) -> Session:
        """With the link that `stockade up` prints, or its code. A link of another server is not shown to this one."""
        code = link
        if not link.isascii() or not link.isprintable() or any(c in link for c in ":/#?"):
            if split_origin(link, "the link") != (self._t.scheme, self._t.host, self._t.port):
                raise ValueError(f"the link is not one of {self._t.scheme}://{self._t.address}")
            name, _, code = urlsplit(link).fragment.partition("=")
            if name != "link" or not code:
                raise ValueError("this is not a link that signs anybody in")
        return self._session({"link": code})

    def _session(self, body: Dict[str, str]) -> Session:
        session = cast(Session, self._t.call("POST", "/api/auth/session", body=body))
        self._t.token = session["token"]
        return session

    def renew(self) -> Session:
        """Another session before this one ends, until twelve hours after the sign-in; the client goes on with it."""
        session = cast(Session, self._t.call("POST", "/api/auth/session/renew", body={}))
        self._t.token = session["token"]
        return session

    def sign_out(self) -> None:
        """Revokes the session; everything that it opened is cut within a second."""
        self._t.call("DELETE", "/api/auth/session")
        self._t.token = None

    def whoami(self) -> WhoAmI:
        return cast(WhoAmI, self._t.call("GET", "/api/auth/whoami"))

    def ticket(self, path: str) -> str:
        """For one stream, once, within 30 seconds: ?ticket= where no header can be sent."""
        return str(self._t.call("POST", "/api/auth/ticket", body={"path": path})["ticket"])

    # --- the host

    def health(self) -> Dict[str, Any]:
        """{status, checks, …}, also if it is not well."""
        return self._condition("GET", "/health")

    def ready(self) -> Dict[str, Any]:
        """{status, …}, also if no sandbox could be had now."""
        return self._condition("GET", "/readyz")

    def _condition(self, method: str, path: str) -> Dict[str, Any]:
        response = self._t.send(method, path)
        if 300 <= response.status < 400:
            raise response.refusal()
        found = response.object()
        if found is None or "status" not in found:
            raise StockadeError.of(response.status, found, response.headers.get("x-request-id", ""))
        return found

    def metrics(self) -> str:
        """In Prometheus' text form."""
        with self._t.open("GET", "/metrics") as response:
            return response.read().decode()

    def capabilities(self) -> Dict[str, Any]:
        return cast(Dict[str, Any], self._t.call("GET", "/api/capabilities"))

    def openapi(self) -> Dict[str, Any]:
        return cast(Dict[str, Any], self._t.call("GET", "/api/openapi.json"))

    def checkpoint(self) -> Dict[str, Any]:
        """Where the ledger's chain stands: {seq, hash, …}."""
        return cast(Dict[str, Any], self._t.call("GET", "/api/ledger/checkpoint"))

    def provisions(self, page: int = 100) -> Iterator[Dict[str, Any]]:
        """What was provisioned for one, oldest first; pages are fetched as they are needed."""
        return _pages(self._t, "GET", "/api/provisions", "provisions", {"limit": page})

    def provision(self, call: str) -> Dict[str, Any]:
        return cast(Dict[str, Any], self._t.call("GET", "/api/provisions/{call}", {"call": call}))

    # --- events

    def events(self, *, after: Optional[int] = None, kinds: Sequence[str] = (), follow: bool = True) -> Iterator[LedgerEvent]:
        """What happens to one's sandboxes: from after a number on, or from now on; with follow=False what has happened
        so far. Goes on by itself when the connection breaks. kinds: families ("sandbox") or single ones
        ("sandbox.start")."""
        return ledger_events(self._t, "GET", "/api/events", {}, after, kinds, follow)

    def search_events(self, *, sandbox: Optional[str] = None, kinds: Sequence[str] = (), text: Optional[str] = None,
                      since_ms: Optional[int] = None, until_ms: Optional[int] = None, before: Optional[int] = None,
                      limit: Optional[int] = None, all: Optional[bool] = None) -> EventPage:
        """Looks back, newest first; next is `before` of the next page, and None where there is no more. A page may be
        empty."""
        return cast(EventPage, self._t.call("GET", "/api/events/search", query={
            "sandbox": sandbox, "kinds": ",".join(kinds) or None, "text": text, "since_ms": since_ms,
            "until_ms": until_ms, "before": before, "limit": limit, "all": all}))


def _pages(transport: Transport, method: str, template: str, member: str, query: Query) -> Iterator[Dict[str, Any]]:
    cursor: Optional[str] = None
    while True:
        found = transport.call(method, template, query={**query, "cursor": cursor})
        yield from found[member]
        cursor = found.get("next_cursor")
        if not cursor:
            return


class Sandboxes:
    def __init__(self, transport: Transport) -> None:
        self._t = transport

    def create(self, profile: Optional[str] = None, *, profile_text: Optional[str] = None, name: Optional[str] = None,
               overrides: Optional[Mapping[str, str]] = None, allow: Optional[Sequence[str]] = None,
               image: Optional[str] = None, from_snapshot: Optional[str] = None, memory_only: Optional[bool] = None,
               driver: Optional[str] = None, secrets: Optional[Mapping[str, str]] = None, key: Optional[str] = None,
               owner: Optional[str] = None) -> Sandbox:
        """A new one, which runs. In a with statement it is deleted at the end."""
        made = self._t.call("POST", "/api/sandboxes", body={
            "profile": profile, "profile_text": profile_text, "name": name, "overrides": overrides,
            "allow": None if allow is None else list(allow), "image": image, "from_snapshot": from_snapshot,
            "memory_only": memory_only, "driver": driver, "secrets": secrets, "key": key, "owner": owner})
        return Sandbox(self._t, cast(SandboxInfo, made))

    def list(self, *, state: Optional[str] = None, all: Optional[bool] = None, page: int = 100) -> Iterator[Sandbox]:
        """Oldest first; pages are fetched as they are needed."""
        query: Query = {"state": state, "limit": page, "all": all}
        for info in _pages(self._t, "GET", "/api/sandboxes", "sandboxes", query):
            yield Sandbox(self._t, cast(SandboxInfo, info))

    def usage(self, ids: Sequence[str]) -> Dict[str, List[Sample]]:
        """What several used of late, by id: the last samples, oldest first."""
        found = self._t.call("POST", "/api/usage", body={"sandboxes": list(ids)})
        return cast(Dict[str, List[Sample]], found["usage"])

    def get(self, sandbox: str) -> Sandbox:
        """By its id, or its name."""
        return Sandbox(self._t, cast(SandboxInfo, self._t.call("GET", "/api/sandboxes/{sandbox}", {"sandbox": sandbox})))


class Snapshots:
    def __init__(self, transport: Transport) -> None:
        self._t = transport

    def list(self, *, sandbox: Optional[str] = None, all: Optional[bool] = None) -> List[Snapshot]:
        found = self._t.call("GET", "/api/snapshots", query={"sandbox": sandbox, "all": all})
        return cast(List[Snapshot], found["snapshots"])

    def delete(self, snapshot: str) -> None:
        """Forks of it stay."""
        self._t.call("DELETE", "/api/snapshots/{snapshot}", {"snapshot": snapshot})

    def diff(self, snapshot: str, to: str) -> Diff:
        """What differs between it and another snapshot, or a stopped sandbox."""
        return cast(Diff, self._t.call("GET", "/api/snapshots/{snapshot}/diff", {"snapshot": snapshot},
                                       query={"to": to}))

    def export(self, snapshot: str) -> Response:
        """Its files as a tar.zst, read while it comes."""
        return self._t.open("GET", "/api/snapshots/{snapshot}/export", {"snapshot": snapshot})

    def open(self, snapshot: str, path: str) -> Response:
        """A file as it was then, by its path in the sandbox; or a folder, as JSON. Read while it comes."""
        return self._t.open("GET", "/api/snapshots/{snapshot}/files", {"snapshot": snapshot}, query={"path": path})

    def import_(self, archive: Body, *, name: Optional[str] = None, profile: Optional[str] = None,
                size: Optional[int] = None) -> Snapshot:
        made = self._t.open("POST", "/api/snapshots/import", query={"name": name, "profile": profile, "size": size},
                            data=archive)
        return cast(Snapshot, made.json())


class Tokens:
    """Capabilities: tokens for machines, for named verbs on named resources."""

    def __init__(self, transport: Transport) -> None:
        self._t = transport

    def create(self, verbs: Sequence[str], resources: Sequence[str], *, expires_in: Optional[int] = None,
               about: Optional[str] = None) -> str:
        """The token. It is shown this once; stockade.narrow() makes narrower ones from it."""
        made = self._t.call("POST", "/api/capabilities/tokens", body={
            "verbs": list(verbs), "resources": list(resources), "expires_in": expires_in, "about": about})
        return str(made["token"])

    def list(self) -> List[CapabilityToken]:
        return cast(List[CapabilityToken], self._t.call("GET", "/api/capabilities/tokens")["tokens"])

    def revoke(self, jti: str) -> None:
        """With everything that was narrowed from it."""
        self._t.call("DELETE", "/api/capabilities/tokens/{jti}", {"jti": jti})


class Operator:
    """For operators: wallets that act for all owners."""

    def __init__(self, transport: Transport) -> None:
        self._t = transport

    def health(self) -> Dict[str, Any]:
        return cast(Dict[str, Any], self._t.call("GET", "/api/operator/health"))

    def load(self) -> Dict[str, Optional[int]]:
        """How busy the host is, and what was promised of it."""
        return cast(Dict[str, Optional[int]], self._t.call("GET", "/api/operator/load"))

    def doctor(self) -> Dict[str, Any]:
        """What the host can enforce, as `stockade doctor` says."""
        return cast(Dict[str, Any], self._t.call("GET", "/api/operator/doctor"))

    def verify(self) -> Dict[str, Any]:
        """The latest report that `stockade verify` left on the host; NOT_FOUND if there is none."""
        return cast(Dict[str, Any], self._t.call("GET", "/api/operator/verify"))

    def verify_page(self) -> str:
        """The same as a page of HTML."""
        with self._t.open("GET", "/api/operator/verify/report") as response:
            return response.read().decode()

    def pool(self) -> Dict[str, Any]:
        """Sandboxes that wait for somebody to want them."""
        return cast(Dict[str, Any], self._t.call("GET", "/api/operator/pool"))

    def gate(self, *, since_ms: Optional[int] = None, limit: Optional[int] = None) -> Dict[str, Any]:
        """What gates let pass and refused of late, by name."""
        return cast(Dict[str, Any], self._t.call("GET", "/api/operator/gate", query={"since_ms": since_ms, "limit": limit}))

    def owners(self) -> Dict[str, Any]:
        return cast(Dict[str, Any], self._t.call("GET", "/api/operator/owners"))

    def sandboxes(self, *, state: Optional[str] = None, page: int = 100) -> Iterator[Sandbox]:
        """Everybody's, oldest first; pages are fetched as they are needed."""
        for info in _pages(self._t, "GET", "/api/operator/sandboxes", "sandboxes", {"state": state, "limit": page}):
            yield Sandbox(self._t, cast(SandboxInfo, info))
