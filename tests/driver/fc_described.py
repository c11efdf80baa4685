"""What of Firecracker's API this project speaks, in the form of its published description, which is not part of this project.
Where that one is found (FOUND), it is the judge, and test_fc_api.py holds this table against it; elsewhere this one is."""
import os
import pathlib

BESIDE = pathlib.Path(__file__).resolve().parents[3] / "shared/data/firecracker"


def find():
    if said := os.environ.get("STOCKADE_FIRECRACKER_API"):
        return said
    places = [*sorted(BESIDE.glob("firecracker-*.yaml"), reverse=True), pathlib.Path("/usr/share/doc/firecracker/firecracker.yaml")]
    return next((str(path) for path in places if path.exists()), None)


FOUND = find()
TEXT, FLAG, NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
PRE, POST = "Pre-boot only.", "Post-boot only."


def one_of(*words):
    return {"type": "string", "enum": list(words)}


def fields(required, **properties):
    return {"type": "object", "required": required.split(), "properties": properties}


def asks(when, schema):
    return {"summary": when, "parameters": [{"in": "body", "schema": schema}]}


OURS = {
    "info": {"version": "1.16.0"},
    "definitions": {},
    "paths": {
        "/": {"get": {"summary": ""}},
        "/machine-config": {"put": asks(PRE, fields("mem_size_mib vcpu_count", mem_size_mib=NUMBER, smt=FLAG,
                                                    vcpu_count={"type": "integer", "minimum": 1, "maximum": 32}))},
        "/boot-source": {"put": asks(PRE, fields("kernel_image_path", kernel_image_path=TEXT, initrd_path=TEXT, boot_args=TEXT))},
        "/drives/{drive_id}": {"put": asks(PRE, fields("drive_id is_root_device", drive_id=TEXT, is_root_device=FLAG, is_read_only=FLAG,
                                                       path_on_host=TEXT, cache_type=one_of("Unsafe", "Writeback")))},
        "/network-interfaces/{iface_id}": {"put": asks(PRE, fields("host_dev_name iface_id", host_dev_name=TEXT, iface_id=TEXT))},
        "/vsock": {"put": asks(PRE, fields("guest_cid uds_path", guest_cid={"type": "integer", "minimum": 3}, uds_path=TEXT))},
        "/entropy": {"put": asks(PRE, fields(""))},
        "/actions": {"put": asks("", fields("action_type", action_type=one_of("FlushMetrics", "InstanceStart", "SendCtrlAltDel")))},
        "/vm": {"patch": asks("", fields("state", state=one_of("Paused", "Resumed")))},
        "/snapshot/create": {"put": asks(POST, fields("mem_file_path snapshot_path", mem_file_path=TEXT, snapshot_path=TEXT,
                                                      snapshot_type=one_of("Full", "Diff")))},
        "/snapshot/load": {"put": asks(PRE, fields("snapshot_path", snapshot_path=TEXT, resume_vm=FLAG, mem_backend=fields(
            "backend_type backend_path", backend_type=one_of("File", "Uffd"), backend_path=TEXT)))},
    },
}
