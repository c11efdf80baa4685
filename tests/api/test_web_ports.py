"""A page that shows ports looks again and again: that is neither recorded nor a use of the sandbox."""
import time


def test_looking_at_ports_leaves_nothing_in_the_ledger(alice, bob, box):
    used, now = None, alice.get(f"/api/sandboxes/{box}").json["used_ms"]
    while used != now:  # what others did in it has come to rest
        time.sleep(0.5)
        used, now = now, alice.get(f"/api/sandboxes/{box}").json["used_ms"]
    for _ in range(3):
        answer = alice.get(f"/api/sandboxes/{box}/ports")
        assert answer.status == 200 and isinstance(answer.json["ports"], dict), answer
    assert bob.get(f"/api/sandboxes/{box}/ports").status == 404
    assert not alice.get(f"/api/events/search?sandbox={box}&text=/proc/net").json["events"]
    assert alice.get(f"/api/sandboxes/{box}").json["used_ms"] == used
    assert alice.get(f"/api/sandboxes/{box}/files?path=/etc/hostname").status == 200  # what somebody reads is recorded as before
    assert alice.get(f"/api/events/search?sandbox={box}&text=/etc/hostname&kinds=file.read").json["events"]
