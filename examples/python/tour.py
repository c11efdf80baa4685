#!/usr/bin/env python3
"""What the Python client can do, in a minute.

    stockade up --detach --config FILE      # with `listen = 127.0.0.1:7070` in FILE: prints a link that signs you in, once
    PYTHONPATH=clients/python examples/python/tour.py

It asks for that link, or takes it from a pipe: everybody can read the arguments of a program.
"""
import getpass
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from stockade import Client, StockadeError


def main(link: str) -> None:
    where = urlsplit(link)
    client = Client(f"{where.scheme}://{where.netloc}")
    client.sign_in_with_link(link)  # with a wallet: client.sign_in(address, lambda text: signature)
    print("signed in as", client.whoami()["owner"])
    before = client.checkpoint()["seq"]

    with client.sandboxes.create("medium") as box:  # deleted at the end of this block
        print("hello from", box.exec("uname -n").check().text.strip())

        for event in box.exec_stream("for i in 1 2 3; do echo $i; done"):
            if event.kind == "exit":
                print("counted to 3, exit code", event.info["exit_code"])

        # a terminal: leave it, come back, and it is where it was
        shell = box.terminals.create("PS1= exec sh -i")
        with shell.attach() as terminal:
            terminal.send(b"answer=42; echo re''ady\n")
            terminal.read_until(b"ready")
        with shell.attach() as terminal:
            terminal.send(b"echo the answer is still $answer\n")
            terminal.read_until(b"still 42")
        shell.close()

        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            tree.mkdir()
            (tree / "index.html").write_text("<h1>from a sandbox</h1>")
            (tree / "notes.txt").write_text("some notes")
            box.files.make_folder("/home/agent/site")
            box.files.upload_tree(tree, "/home/agent/site")
            box.files.download_tree("/home/agent/site", Path(folder) / "back")
            count = sum(1 for path in (Path(folder) / "back").rglob("*") if path.is_file())
            print(count, "files came back")

        changes = box.files.watch("/home/agent/site")
        server = box.start("exec python3 -u -m http.server 8000 --directory site", cwd="/home/agent")
        for output in server.follow():
            if b"Serving" in output.data:
                break
        with box.port_request("GET", 8000, "/index.html") as answer:
            print("the port answers", answer.status, answer.read().decode())
        server.cancel()

        snapshot = box.snapshot()
        box.files.write("/home/agent/site/notes.txt", "spoiled")
        print("a change:", next(iter(changes))["change"])
        box.rollback(snapshot["id"])
        kept = box.files.read("/home/agent/site/notes.txt").decode()
        print("after the rollback:", "kept" if kept == "some notes" else kept)
        client.snapshots.delete(snapshot["id"])

        try:
            box.files.read("/etc/shadow")
        except StockadeError as error:  # every refusal has a code for programs and a hint for people
            print(error.code, "|", error.message, "|", error.hint)

    print("what happened:", ", ".join(e.kind for e in client.events(after=before, kinds=["sandbox"], follow=False)))
    client.sign_out()


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    main((getpass.getpass("link: ") if sys.stdin.isatty() else sys.stdin.readline()).strip())
