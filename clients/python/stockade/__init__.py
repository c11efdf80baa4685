"""A client of Stockade's API. Nothing but the standard library is needed.

    from stockade import Client

    client = Client("http://127.0.0.1:7070")
    client.sign_in_with_link(link)                      # or sign_in(address, sign), or Client(url, token=…)
    with client.sandboxes.create("medium") as box:
        print(box.exec("uname -a").check().text)
"""
from .capability import narrow
from .client import Client
from .errors import StockadeError, StreamEnded
from .ledger import LedgerEvent
from .runs import Attachment, CommandFailed, Output, Run, RunEvent, Terminal
from .sandbox import Sandbox

__all__ = ["Attachment", "Client", "CommandFailed", "LedgerEvent", "Output", "Run", "RunEvent", "Sandbox", "StockadeError",
           "StreamEnded", "Terminal", "narrow"]
__version__ = "0.1.0"
