"""Whether a view can be had at all: without root it needs attributes that tmpfs has since Linux 6.6."""
import os


def tmpfs_has_user_attributes():
    fd = os.memfd_create("attributes")
    try:
        os.setxattr(fd, "user.test", b"y")
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def test_works_or_is_refused(who, run, place):
    (place / "file").write_text("old")
    os.chown(place / "file", who.uid, who.gid)
    done = run("--workspace", place, "--apply", "--", "sh", "-c", "rm file; mkdir file; echo new >file/inside")
    if who.rootless and not tmpfs_has_user_attributes():
        assert done.status == 125 and "user attributes" in done.errors and "hint:" in done.errors
        assert (place / "file").read_text() == "old"
    else:
        assert done.status == 0 and (place / "file/inside").read_text() == "new\n"
