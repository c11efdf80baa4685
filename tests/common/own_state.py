"""The state folder of this host (/var/lib/stockade) for one test alone: what is started through such a script sees another."""
import os
import shlex
from pathlib import Path


def through(folder, program, name):
    """A script that starts the program with folder in place of /var/lib. What it keeps is then in folder/stockade."""
    Path(folder).mkdir(mode=0o755, exist_ok=True)
    script = Path(f"{folder}.{name}")
    words = shlex.join(["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind "$0" /var/lib || exit 1; exec "$@"',
                        str(folder), str(program)])
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    os.chmod(script, 0o755)
    return script
