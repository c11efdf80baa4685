"""An operator that is about to run out of descriptors says so before it does, and goes on."""
import pytest

import ground
import harness
from harness import Refused, until

pytestmark = pytest.mark.skipif(not harness.IS_ROOT, reason="puts an operator of its own in front of the real one")


@pytest.mark.long
def test_creates_are_refused_before_the_last_descriptor_is_gone(make_daemon, suite):
    daemon = ground.faulty(make_daemon(start=False, conf="pool = 0\n"), suite, "nothing", limit=280)
    client, operator, made, said = daemon.client, daemon.operator, [], None
    while said is None and len(made) < 250:
        try:
            made.append(client.create(profile="low", memory_only=True)["id"])
        except Refused as e:
            said = e
    assert said and said.code == "busy" and "descriptor" in said.message and "LimitNOFILE" in said.hint, (said, len(made))
    assert len(made) >= 2 and daemon.operator == operator, daemon.said()
    assert sorted(s["id"] for s in client.list()["sandboxes"]) == sorted(made)
    for box in made[1:]:
        client.delete(sandbox=box, force=True)

    def works(box):
        try:
            return client.sh(box or client.create(profile="low", memory_only=True)["id"], "echo well")["out"] == b"well\n"
        except Refused as e:
            assert e.code == "busy", e
            return False
    assert until(lambda: works(made[0])) and until(lambda: works(None)), daemon.said()
    assert daemon.operator == operator, daemon.said()
