/* The streams between a machine and what keeps it, by their numbers: which kind they are is on the kernel's command
 * line, as stockade.streams=KIND. */
#pragma once

#include "base/err.h"

/* Numbers of vsock's ports on the host, and of virtio-serial ports. */
enum vm_stream { VM_STREAM_LINE = 1, VM_STREAM_TREE, VM_STREAM_LIVE };

enum vm_streams {
        VM_STREAMS_LINE,  /* nothing said: a virtio-serial port for the line; files come by virtiofs */
        VM_STREAMS_PORTS, /* "ports": virtio-serial ports for all, files come by FUSE */
        VM_STREAMS_VSOCK, /* "vsock": the machine connects to the host's ports, files come by FUSE */
};
#define VM_STREAMS_WORD "stockade.streams="

/* What a command line says. ERR_INPUT: a kind that there is none of. */
int vm_streams_read(const char *words, enum vm_streams *ret, struct err *err);

/* A stream, once its other end is there. */
int vm_stream_open(enum vm_streams kind, enum vm_stream number, struct err *err);
