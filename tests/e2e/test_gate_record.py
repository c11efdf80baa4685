"""What the record says when there is too much to say."""
from world import allow, denials


def test_a_flood_of_one_kind_hides_no_other(net):
    """Three hundred cheap questions, then one connection: the connection is in the record, and the rest is counted."""
    result = net.py("""
for i in range(300):
    dns(question("noise%d.test" % i))
ask(("169.254.169.254", 80), get("/", "169.254.169.254", "Connection: close\\r\\n"))
""", *allow("example.test"))
    assert denials(result, "169.254.169.254"), result.record["denials"]
    listed = sum(d["count"] for d in result.record["denials"])
    assert listed + result.record["denials_left_out"] >= 300 and result.record["network"]["lookups_refused"] == 300
