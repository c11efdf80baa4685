"""The table of checks, as `stockade verify --list --json` has it: what each attempt of the probe must run into. This
suite has a judge of its own, which knows nothing of the other's code, only of its table.

mechanism  what must stop it
expect     the errnos that this mechanism gives; a dictionary where profiles differ; ALLOWED where a profile allows it
control    where the same attempt works, so that a refusal means something:
             user     an ordinary user's process without any sandbox
             root     the host's root in a mount namespace of its own
             init     an ordinary user's pid namespace whose PID 1 is an ordinary process
             …        otherwise a sentence that says what shows it
secrets    (filled by the judge) what must never appear in what this attempt reports
"""
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ALLOWED = "allowed"
LAUNCHER = Path(os.environ.get("STOCKADE", Path(__file__).resolve().parents[2] / "build/src/cli/stockade")).resolve()


@dataclass
class Check:
    name: str
    group: str
    mechanism: str
    expect: object
    control: str
    does: str = ""
    secrets: list = field(default_factory=list)

    def errnos(self, profile):
        expect = self.expect.get(profile, ()) if isinstance(self.expect, dict) else self.expect
        return {None if e == "none" else e for e in ([expect] if isinstance(expect, str) else expect)}

    def allowed(self, profile):
        return ALLOWED in self.errnos(profile)


def read():
    """The rows that are attempts of the probe's common run; what needs a scene is played by the tests themselves."""
    said = subprocess.run([LAUNCHER, "verify", "--list", "--json"], capture_output=True, text=True, check=True).stdout
    for row in json.loads(said):
        if row["scene"]:
            continue
        errors = row["errors"].split()
        yield Check(row["name"], row["group"], "; ".join(row["layers"]),
                    {"low": errors, "medium": ALLOWED} if row["needs"] == "exec-list" else errors,
                    row["control"] if row["control"] in ("user", "root", "init") else row["note"] or row["control"],
                    row["does"])


CHECKS = list(read())
BY_NAME = {check.name: check for check in CHECKS}
