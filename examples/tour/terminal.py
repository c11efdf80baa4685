#!/usr/bin/python3
"""Somebody at a terminal of a sandbox, over a WebSocket (Debian's python3-websockets).

    TOKEN=… terminal.py URL type TEXT EXPECTED   types a line and shows what comes until EXPECTED is there
    TOKEN=… terminal.py URL watch                says "open", then waits until the other end closes, and says why
"""
import asyncio
import os
import sys

import websockets


async def main(url, what, text="", expected=""):
    headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}
    async with websockets.connect(url, extra_headers=headers) as ws:
        if what == "watch":
            print("open", flush=True)
            try:
                while True:
                    await ws.recv()
            except websockets.ConnectionClosed:
                print(f"closed with {ws.close_code} ({ws.close_reason})", flush=True)
            return
        await ws.send(text.encode() + b"\n")  # binary: what is typed
        seen = ""
        while expected not in seen:
            message = await asyncio.wait_for(ws.recv(), 60)
            if isinstance(message, bytes):  # binary: what is shown; text: what happened
                seen += message.decode(errors="replace")
        print(seen.replace("\r\n", "\n").strip())


asyncio.run(main(*sys.argv[1:]))
