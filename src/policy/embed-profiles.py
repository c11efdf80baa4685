#!/usr/bin/env python3
"""Writes the built-in profiles as C: embed-profiles.py OUTPUT PROFILE.yaml..."""
import pathlib
import sys

output, *paths = sys.argv[1:]
lines = ['/* Generated from profiles/ by embed-profiles.py. */', '#include "policy/profile.h"', '',
         'const struct profile_builtin profile_builtins[] = {']
for path in map(pathlib.Path, paths):
    data = path.read_bytes()
    lines.append(f'        {{"{path.stem}",')
    for line in data.splitlines(keepends=True):
        text = ''.join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\?' else f'\\{c:03o}' for c in line)
        lines.append(f'         "{text}"')
    lines.append(f'         , {len(data)}}},')
lines += ['};', f'const size_t profile_builtin_count = {len(paths)};', '']
pathlib.Path(output).write_text('\n'.join(lines))
