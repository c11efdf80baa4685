"""Images: archives of `docker save` (old and new), OCI's layout, plain roots; layers with whiteouts, in order."""
import hashlib
import io
import json
import os
import subprocess
import tarfile

import pytest

from conftest import MIB, Tar

ERR_INPUT, ERR_LIMIT = -1003, -1005


def layer(*entries):
    t = Tar(format=tarfile.PAX_FORMAT)
    for e in entries:
        if isinstance(e, str) and e.endswith("/"):
            t.folder(e)
        elif isinstance(e, str):
            t.add(e, e.encode())
        else:
            getattr(t, e[0])(*e[1:])
    return t.bytes()


BASE = layer("etc/", "etc/passwd", "etc/shadow", "usr/", "usr/bin/", "usr/bin/tool", "var/cache/a", "var/cache/b", ("link", "bin", "usr/bin"))
SECOND = layer("etc/", "etc/.wh.shadow", "var/cache/.wh..wh..opq", "var/cache/c", "usr/bin/more", ".wh..wh.plnk")
THIRD = layer(".wh.bin", "bin/", "bin/own", "etc/.wh.never-was", "new")


def check_tree(root):
    found = sorted(os.path.relpath(os.path.join(d, f), root) for d, dirs, files in os.walk(root) for f in files)
    assert found == ["bin/own", "etc/passwd", "new", "usr/bin/more", "usr/bin/tool", "var/cache/c"]
    assert (root / "bin").is_dir() and not (root / "bin").is_symlink()
    assert (root / "etc/passwd").read_text() == "etc/passwd"


def docker_old(layers, tags=("debian:12",), links=False):
    """As before Docker 25: a folder per layer, manifest.json last."""
    t = Tar()
    names = []
    for i, data in enumerate(layers):
        t.folder(f"{i:064x}/").add(f"{i:064x}/VERSION", b"1.0").add(f"{i:064x}/layer.tar", data)
        names.append(f"{i:064x}/layer.tar")
    if links:  # equal layers were links to the first of them
        t.folder("f" * 64 + "/").link("f" * 64 + "/layer.tar", f"../{0:064x}/layer.tar")
        names.insert(1, "f" * 64 + "/layer.tar")
    t.add("manifest.json", json.dumps([{"Config": "c.json", "RepoTags": list(tags), "Layers": names}]).encode())
    return t.add("repositories", b"{}").bytes()


def blob(t, data):
    digest = hashlib.sha256(data).hexdigest()
    t.add(f"blobs/sha256/{digest}", data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def oci(layers, squeeze=lambda d: d, nested=False, docker=False, machines=None):
    t = Tar()
    t.add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    descriptors = [dict(blob(t, squeeze(data)), mediaType="application/vnd.oci.image.layer.v1.tar+gzip") for data in layers]
    manifest = {"schemaVersion": 2, "config": blob(t, b"{}"), "layers": descriptors}
    entry = dict(blob(t, json.dumps(manifest).encode()), mediaType="application/vnd.oci.image.manifest.v1+json")
    if nested:
        others = [dict(blob(t, json.dumps({"schemaVersion": 2, "layers": [dict(blob(t, layer("wrong")))]}).encode()),
                       platform={"os": "linux", "architecture": "mips"})]
        entry["platform"] = {"os": "linux", "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64"}
        inner = {"schemaVersion": 2, "manifests": others + [entry]}
        entry = dict(blob(t, json.dumps(inner).encode()), mediaType="application/vnd.oci.image.index.v1+json")
    t.add("index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
    if docker:
        names = ["blobs/" + d["digest"].replace(":", "/") for d in descriptors]
        t.add("manifest.json", json.dumps([{"RepoTags": ["a:b"], "Layers": names}]).encode())
    return t.bytes()


def gzipped(data):
    return subprocess.run(["gzip", "-c"], input=data, capture_output=True, check=True).stdout


def zstded(data):
    return subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("make", [
    lambda l: docker_old(l), lambda l: gzipped(docker_old(l)), lambda l: oci(l), lambda l: oci(l, gzipped), lambda l: oci(l, zstded),
    lambda l: oci(l, nested=True), lambda l: oci(l, gzipped, docker=True)],
    ids=["docker", "docker-gzip", "oci", "oci-gzip", "oci-zstd", "oci-nested", "docker-25"])
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_layers(state, tmp_path, make, piped):
    data = make([BASE, SECOND, THIRD])
    if not piped:
        (tmp_path / "image").write_bytes(data)
        data = tmp_path / "image"
    root, r, name = state.image(data)
    assert r.ok, r.line
    check_tree(root)
    assert "3 layers" in r.text
    assert state.shell(f"-@{name}", "cat etc/passwd", "look") == "etc/passwd"


def docker_real(layers, change=lambda name, data: data, links=False):
    """As Docker 24 writes it: a configuration that is named by its digest and has those of the layers."""
    names = [f"{i:064x}/layer.tar" for i in range(len(layers))]
    config = json.dumps({"os": "linux", "rootfs": {"type": "layers", "diff_ids": [
        "sha256:" + hashlib.sha256(data).hexdigest() for data in ([layers[0]] if links else []) + layers]}}).encode()
    t = Tar().add(f"{hashlib.sha256(config).hexdigest()}.json", change("config", config))
    for i, (name, data) in enumerate(zip(names, layers)):
        t.folder(name[:65]).add(name, change(f"layer-{i}", data))
    if links:
        t.folder("f" * 64 + "/").link("f" * 64 + "/layer.tar", f"../{names[0]}")
        names.insert(0, "f" * 64 + "/layer.tar")
    t.add("manifest.json", json.dumps([{"Config": f"{hashlib.sha256(config).hexdigest()}.json", "RepoTags": ["debian:12"],
                                        "Layers": names}]).encode())
    return t.bytes()


def flipped(wanted):
    """Changes one letter of a file's content in one part, which leaves the tar itself good."""
    def change(name, data):
        return data.replace(b"etc/passwd" + bytes(502), b"etc/passwT" + bytes(502)) if name == wanted else data
    return change


def swapped(data, old, new):
    """The archive with other bytes in the place of some, which must be there."""
    assert old in data
    return data.replace(old, new)


def test_docker_digests(state):
    for links in (False, True):
        root, r, _ = state.image(docker_real([BASE, SECOND, THIRD], links=links))
        assert r.ok, r.line
        check_tree(root)
    changed = flipped("layer-0")("layer-0", BASE)
    assert changed != BASE and len(changed) == len(BASE)
    _, r, _ = state.image(docker_real([BASE, SECOND, THIRD], flipped("layer-0")))
    assert not r.ok and r.error == ERR_INPUT and "digest" in r.line, r.line
    # a layer too many, or too few, for the configuration
    good = docker_real([BASE, SECOND, THIRD])
    _, r, _ = state.image(swapped(good, b'"diff_ids": ["sha256:', b'"diff_idz": ["sha256:'))
    assert not r.ok and r.error == ERR_INPUT, r.line


@pytest.mark.parametrize("squeeze", [lambda d: d, gzipped], ids=["plain", "gzip"])
@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker-25"])
def test_blobs_are_what_their_names_say(state, squeeze, docker):
    layers = [BASE, SECOND, THIRD]
    good = oci(layers, squeeze, docker=docker)
    assert state.image(good)[1].ok
    for data in map(squeeze, layers):
        for place in (len(data) // 2, len(data) - 1):  # behind the end of the tar, too
            changed = bytearray(data)
            changed[place] ^= 1
            _, r, _ = state.image(swapped(good, data, bytes(changed)))
            assert not r.ok and r.error == ERR_INPUT and "digest" in r.line, r.line
    _, r, _ = state.image(swapped(good, b'"schemaVersion": 2, "config"', b'"schemaVersion": 3, "config"'))
    assert not r.ok and "digest" in r.line, r.line


def test_blobs_that_are_links(state):
    """A name that is a digest leads to a file that is not."""
    t = Tar().add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}').add("sha256/other", BASE)
    digest = hashlib.sha256(SECOND).hexdigest()
    t.link(f"blobs/sha256/{digest}", "../sha256/other")
    entry = blob(t, json.dumps({"schemaVersion": 2, "layers": [{"digest": f"sha256:{digest}"}]}).encode())
    t.add("index.json", json.dumps({"manifests": [entry]}).encode())
    _, r, _ = state.image(t.bytes())
    assert not r.ok and r.error == ERR_INPUT and "digest" in r.line, r.line
    # and one of another kind, which nobody could compare
    t = Tar().add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}').add("blobs/md5/00", BASE)
    entry = blob(t, json.dumps({"schemaVersion": 2, "layers": [{"digest": "md5:00"}]}).encode())
    _, r, _ = state.image(t.add("index.json", json.dumps({"manifests": [entry]}).encode()).bytes())
    assert not r.ok and "SHA-256" in r.line, r.line


def test_tags_are_told(state):
    _, r, _ = state.image(docker_old([BASE]))
    assert r.text == "an image of 1 layer, debian:12"
    _, r, _ = state.image(docker_old([BASE], tags=("\x1b[31mred\n",)))
    assert r.ok and "\x1b" not in r.text


def test_equal_layers_that_are_links(state):
    root, r, _ = state.image(docker_old([BASE, SECOND, THIRD], links=True))
    assert r.ok, r.line
    check_tree(root)


def test_a_plain_root(state, tmp_path):
    root, r, name = state.image(gzipped(BASE))
    assert r.ok and r.text == "a tar archive" and (root / "etc/shadow").exists()
    # with a file that happens to have a manifest's name
    root, r, _ = state.image(layer("etc/", "etc/passwd", "manifest.json", "usr/bin/x"))
    assert r.ok and r.text == "a tar archive" and (root / "manifest.json").exists()
    # whiteouts mean nothing there
    root, r, _ = state.image(layer("a", ".wh.a"))
    assert r.ok and sorted(os.listdir(root)) == [".wh.a", "a"]


def test_whiteouts_stay_inside(state, tmp_path):
    (tmp_path / "kept").write_text("kept")
    for name in (".wh.", ".wh..", ".wh...", "etc/.wh..."):
        _, r, _ = state.image(docker_old([BASE, layer(name)]))
        assert not r.ok and r.error == ERR_INPUT, (name, r.line)
    # through a link
    out = layer(("link", "out", str(tmp_path)))
    _, r, _ = state.image(docker_old([out, layer("out/.wh.kept")]))
    assert not r.ok
    root, r, _ = state.image(docker_old([out, layer("out/.wh..wh..opq")]))
    assert (tmp_path / "kept").read_text() == "kept"
    # only what is below a layer goes: its own files stay, in whatever order they come
    root, r, _ = state.image(docker_old([layer("d/", "d/old"), layer("d/new", "d/.wh..wh..opq", "d/.wh.new")]))
    assert r.ok and os.listdir(root / "d") == ["new"]


def papers(text):
    return Tar().add("x/layer.tar", BASE).add("manifest.json", text if isinstance(text, bytes) else json.dumps(text).encode()).bytes()


@pytest.mark.parametrize("text", [
    [], [{}], [{"Layers": []}], [{"Layers": ["nothing.tar"]}], [{"Layers": [7]}], [{"Layers": ["../x"]}], [{"Layers": ["/etc/passwd"]}],
    [{"Layers": ["x/layer.tar"]}] * 2, [{"Layers": ["x/layer.tar"] * 300}], [{"Layers": ["manifest.json"]}], [{"Layers": ["x"]}], {"Layers": 1}])
def test_papers_that_lie(state, text):
    _, r, _ = state.image(papers(text))
    assert not r.ok and r.error in (ERR_INPUT, ERR_LIMIT), r.line


def test_papers_that_are_none(state):
    """Then it is a plain tar."""
    for text in (b"", b"not json", b"[" * 100, b"\xff\xfe"):
        root, r, _ = state.image(papers(text))
        assert r.ok and r.text == "a tar archive", r.line


def test_indexes_in_circles(state):
    t = Tar().add("oci-layout", b"{}")
    index = {"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "sha256:" + "ab" * 32}]}
    t.add("blobs/sha256/" + "ab" * 32, json.dumps(index).encode()).add("index.json", json.dumps(index).encode())
    _, r, _ = state.image(t.bytes())
    assert not r.ok and "circles" in r.text
    for digest in ("", "sha256", "sha256:", "sha256:../../x", "sha256:" + "g" * 64, ":aa", "sha256:" + "a" * 300):
        t = Tar().add("oci-layout", b"{}").add("index.json", json.dumps({"manifests": [{"digest": digest}]}).encode())
        _, r, _ = state.image(t.bytes())
        assert not r.ok and r.error == ERR_INPUT, r.line


def test_layers_that_are_bad(state):
    _, r, _ = state.image(docker_old([BASE, layer("../escaped")]))
    assert not r.ok and "leads out" in r.text
    _, r, _ = state.image(docker_old([BASE, b"nonsense" * 100]))
    assert not r.ok
    _, r, _ = state.image(docker_old([BASE, BASE[:700]]))
    assert not r.ok
    _, r, _ = state.image(docker_old([layer(*(f"f{i}" for i in range(600)))] * 2), entries=1000)
    assert not r.ok and r.error == ERR_LIMIT
    t = Tar().link("x/layer.tar", "../y/layer.tar").link("y/layer.tar", "../x/layer.tar")
    _, r, _ = state.image(t.add("manifest.json", b'[{"Layers":["x/layer.tar"]}]').bytes())
    assert not r.ok and "circles" in r.text
    t = Tar().link("x/layer.tar", "/etc/passwd").add("manifest.json", b'[{"Layers":["x/layer.tar"]}]')
    _, r, _ = state.image(t.bytes())
    assert not r.ok


def test_through_a_pipe_within_caps(state):
    _, r, _ = state.image(docker_old([layer("big")] + [Tar().add("x", os.urandom(3 * MIB)).bytes()]), bytes=MIB)
    assert not r.ok and r.error == ERR_LIMIT
