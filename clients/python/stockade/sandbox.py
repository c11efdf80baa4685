"""One sandbox, and what can be done with it."""
from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union, cast
from urllib.parse import unquote

from .files import Files
from .ledger import LedgerEvent, ledger_events
from .runs import Output, Run, RunEvent, Terminals, run_events
from .transport import Body, Response, Transport, fill
from .types import RunInfo, SandboxInfo, SecretName, Snapshot, SshKey, Usage, UsageHistory

Command = Union[str, Sequence[str]]
_PORT = ("ANY", "/api/sandboxes/{sandbox}/port/{port}/{rest}")


class Sandbox:
    """`info` is what was known when it was asked for last; refresh() asks again."""

    def __init__(self, transport: Transport, info: SandboxInfo) -> None:
        self._t, self.info = transport, info
        self.id = info["id"]
        self._at = {"sandbox": self.id}
        self.files = Files(transport, self.id)
        self.terminals = Terminals(transport, self.id)

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} {self.info.get('name', '')} {self.info.get('state', '')}>"

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.delete(force=True)

    # --- its life

    def refresh(self) -> SandboxInfo:
        self.info = cast(SandboxInfo, self._t.call("GET", "/api/sandboxes/{sandbox}", self._at))
        return self.info

    def delete(self, force: bool = False) -> None:
        """With everything in it; force: also if it runs."""
        self._t.call("DELETE", "/api/sandboxes/{sandbox}", self._at, query={"force": force or None})

    def stop(self, key: Optional[str] = None) -> SandboxInfo:
        return self._became(self._t.call("POST", "/api/sandboxes/{sandbox}/stop", self._at, body={"key": key}))

    def resume(self, key: Optional[str] = None, *, driver: Optional[str] = None) -> SandboxInfo:
        """Starts it again; with driver, under another one."""
        return self._became(self._t.call("POST", "/api/sandboxes/{sandbox}/resume", self._at,
                                         body={"driver": driver, "key": key}))

    def pause(self, key: Optional[str] = None) -> SandboxInfo:
        return self._became(self._t.call("POST", "/api/sandboxes/{sandbox}/pause", self._at, body={"key": key}))

    def unpause(self, key: Optional[str] = None) -> SandboxInfo:
        return self._became(self._t.call("POST", "/api/sandboxes/{sandbox}/unpause", self._at, body={"key": key}))

    def quarantine(self, reason: Optional[str] = None) -> SandboxInfo:
        """Frozen, cut off, and kept as evidence."""
        return self._became(self._t.call("POST", "/api/sandboxes/{sandbox}/quarantine", self._at,
                                         body={"reason": reason}))

    def _became(self, info: Any) -> SandboxInfo:
        self.info = cast(SandboxInfo, info)
        return self.info

    def policy(self) -> Dict[str, Any]:
        """{effective (a text), asked, differs, described: what it may do, in sentences}"""
        return cast(Dict[str, Any], self._t.call("GET", "/api/sandboxes/{sandbox}/policy", self._at))

    def allow(self, hosts: Sequence[str]) -> SandboxInfo:
        """All that can be reached from now on."""
        return self._became(self._t.call("PATCH", "/api/sandboxes/{sandbox}/policy", self._at,
                                         body={"allow": list(hosts)}))

    def allow_more(self, hosts: Sequence[str]) -> SandboxInfo:
        """More than can be reached now; the rules that there are stay."""
        return self._became(self._t.call("PATCH", "/api/sandboxes/{sandbox}/policy", self._at, body={"add": list(hosts)}))

    def try_network(self, *, allow: Optional[Sequence[str]] = None, add: Optional[Sequence[str]] = None) -> Dict[str, Any]:
        """What policy() would say after allow(), or after allow_more(); nothing is changed."""
        return cast(Dict[str, Any], self._t.call("PATCH", "/api/sandboxes/{sandbox}/policy", self._at, body={
            "allow": None if allow is None else list(allow), "add": None if add is None else list(add), "check": True}))

    def usage(self) -> Usage:
        return cast(Usage, self._t.call("GET", "/api/sandboxes/{sandbox}/usage", self._at))

    def usage_history(self, since_ms: Optional[int] = None) -> UsageHistory:
        """What it used over the last minutes, oldest first. It is measured while somebody asks; the first answer may be
        empty."""
        return cast(UsageHistory, self._t.call("GET", "/api/sandboxes/{sandbox}/usage/history", self._at,
                                               query={"since_ms": since_ms}))

    def processes(self) -> List[Dict[str, Any]]:
        return cast(List[Dict[str, Any]],
                    self._t.call("GET", "/api/sandboxes/{sandbox}/processes", self._at)["processes"])

    # --- commands

    def _command(self, command: Command, **fields: Any) -> Dict[str, Any]:
        body: Dict[str, Any] = {"command": command} if isinstance(command, str) else {"argv": list(command)}
        body.update({k: v for k, v in fields.items() if v is not None})
        return body

    def exec(self, command: Command, *, cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
             stdin: Optional[str] = None, timeout_ms: Optional[int] = None, key: Optional[str] = None) -> Output:
        """Runs a command (a line for a shell, or a list of arguments) and waits for its end."""
        body = self._command(command, cwd=cwd, env=env, stdin=stdin, timeout_ms=timeout_ms, key=key)
        return Output.of(self._t.call("POST", "/api/sandboxes/{sandbox}/exec", self._at, body=body, timeout=None))

    def exec_stream(self, command: Command, *, cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
                    stdin: Optional[str] = None, timeout_ms: Optional[int] = None) -> Iterator[RunEvent]:
        """The same, told while it runs; the last event is "exit"."""
        body = self._command(command, cwd=cwd, env=env, stdin=stdin, timeout_ms=timeout_ms, stream=True)
        return run_events(self._t, "POST", "/api/sandboxes/{sandbox}/exec", self._at, None, body)

    def start(self, command: Command, *, cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
              tty: bool = False, timeout_ms: Optional[int] = None, key: Optional[str] = None) -> Run:
        """Runs a command in the background."""
        body = self._command(command, cwd=cwd, env=env, timeout_ms=timeout_ms, key=key, background=True,
                             tty=tty or None)
        made = self._t.call("POST", "/api/sandboxes/{sandbox}/exec", self._at, body=body)
        return Run(self._t, self.id, made["run"])

    def runs(self, before: Optional[int] = None, limit: Optional[int] = None) -> List[RunInfo]:
        """Newest first."""
        found = self._t.call("GET", "/api/sandboxes/{sandbox}/runs", self._at, query={"before": before, "max": limit})
        return cast(List[RunInfo], found["runs"])

    def run(self, number: int) -> Run:
        return Run(self._t, self.id, number)

    # --- ports

    def ports(self) -> List[int]:
        """What something listens on inside."""
        return sorted(int(p) for p in self._t.call("GET", "/api/sandboxes/{sandbox}/ports", self._at)["ports"])

    def port_url(self, port: int, path: str = "/") -> str:
        """Where the port answers to whoever brings the token."""
        return f"{self._t.scheme}://{self._t.address}{self._port_path(port, path)}"

    def _port_path(self, port: int, path: str) -> str:
        """A path with .. in it could lead to the API itself, and the token goes with it."""
        if ".." in re.split(r"[/\\]", unquote(re.split("[?#]", path, maxsplit=1)[0])):
            raise ValueError("a path below a port has no '..'")
        return fill(_PORT[1].replace("{rest}", ""), {**self._at, "port": port}) + path.lstrip("/")

    def port_request(self, method: str, port: int, path: str = "/", body: Optional[Body] = None,
                     headers: Optional[Mapping[str, str]] = None) -> Response:
        """Whatever answers there, with its own status; redirects are not followed."""
        return self._t.send(method, self._port_path(port, path), body, headers)

    def tab_url(self, port: int, domain: str) -> str:
        """A link that opens the port in a browser's tab, once, within 30 seconds; domain is ports_domain of the server."""
        ticket = self._t.call("POST", "/api/auth/ticket", body={"path": f"//{port}-{self.id}"})["ticket"]
        _, colon, number = self._t.address.rpartition(":") if not self._t.address.endswith("]") else ("", "", "")
        return f"{self._t.scheme}://{port}-{self.id}.{domain}{colon}{number if colon else ''}/.stockade/open?ticket={ticket}"

    # --- SSH

    def add_ssh_key(self, public_key: str, username: Optional[str] = None) -> SshKey:
        """Whoever has the private key may come in: ssh -p PORT ID@HOST. public_key: one line of a .pub file."""
        made = self._t.call("POST", "/api/sandboxes/{sandbox}/ssh", self._at,
                            body={"public_key": public_key, "username": username})
        return cast(SshKey, made["result"])

    def remove_ssh_key(self, public_key: Optional[str] = None, *, fingerprint: Optional[str] = None) -> None:
        """Its sessions are cut."""
        self._t.call("DELETE", "/api/sandboxes/{sandbox}/ssh", self._at,
                     body={"public_key": public_key, "fingerprint": fingerprint})

    def ssh_keys(self) -> List[SshKey]:
        return cast(List[SshKey], self._t.call("GET", "/api/sandboxes/{sandbox}/ssh", self._at)["keys"])

    def ssh_user(self) -> Dict[str, Any]:
        """{username, listen}: whom `ssh` names, and where."""
        return cast(Dict[str, Any], self._t.call("GET", "/api/sandboxes/{sandbox}/ssh/user", self._at))

    # --- secrets

    def secrets(self) -> List[SecretName]:
        """Their names; nobody gets a value."""
        return cast(List[SecretName], self._t.call("GET", "/api/sandboxes/{sandbox}/secrets", self._at)["secrets"])

    def give_secrets(self, secrets: Mapping[str, str]) -> None:
        """From now on, without a restart."""
        self._t.call("POST", "/api/sandboxes/{sandbox}/secrets", self._at, body={"secrets": dict(secrets)})

    def wipe_secrets(self) -> None:
        self._t.call("DELETE", "/api/sandboxes/{sandbox}/secrets", self._at)

    # --- snapshots

    def snapshot(self, name: Optional[str] = None, key: Optional[str] = None) -> Snapshot:
        return cast(Snapshot, self._t.call("POST", "/api/sandboxes/{sandbox}/snapshot", self._at,
                                           body={"name": name, "key": key}))

    def rollback(self, snapshot: str, key: Optional[str] = None) -> SandboxInfo:
        """Puts its disk back; it is stopped first, and runs afterwards."""
        return self._became(self._t.call("POST", "/api/sandboxes/{sandbox}/rollback", self._at,
                                         body={"snapshot": snapshot, "key": key}))

    def fork(self, name: Optional[str] = None, key: Optional[str] = None, *, driver: Optional[str] = None) -> "Sandbox":
        """Another one, which begins with the files that this one has now."""
        made = self._t.call("POST", "/api/sandboxes/{sandbox}/fork", self._at,
                            body={"name": name, "driver": driver, "key": key})
        return Sandbox(self._t, cast(SandboxInfo, made))

    # --- what happened

    def events(self, *, after: Optional[int] = None, kinds: Sequence[str] = (), follow: bool = True) -> Iterator[LedgerEvent]:
        """As Client.events, of this sandbox alone."""
        return ledger_events(self._t, "GET", "/api/sandboxes/{sandbox}/events", self._at, after, kinds, follow)

    def evidence(self, run: Optional[int] = None) -> bytes:
        """All that the ledger says about it, or about one run, with signatures: `stockade ledger verify FILE` checks it."""
        if run is None:
            response = self._t.open("GET", "/api/sandboxes/{sandbox}/evidence", self._at)
        else:
            response = self._t.open("GET", "/api/sandboxes/{sandbox}/evidence/{run}", {**self._at, "run": run})
        with response:
            return response.read()
