#!/usr/bin/env python3
"""Writes call-names.h: the names of system calls by number, from the kernel's own header."""
import re
import sys

names = {}
for line in open(sys.argv[1]):
    if m := re.match(r"#define __NR_(\w+)\s+(\d+)", line):
        names[int(m.group(2))] = m.group(1)
with open(sys.argv[2], "w") as out:
    out.write("/* Made by call-names.py. */\n#pragma once\n\nstatic const char *const call_names[] = {\n")
    for number in sorted(names):
        out.write(f'        [{number}] = "{names[number]}",\n')
    out.write("};\n")
