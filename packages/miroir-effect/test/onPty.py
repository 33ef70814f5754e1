"""Runs a command on a pseudo-terminal of its own: onPty.py COLUMNS LINES COMMAND...

What is typed comes by stdin, what the terminal gets goes to stdout; the end is the command's.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

columns, lines = int(sys.argv[1]), int(sys.argv[2])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])

sources = [terminal, 0]
while terminal in sources:
    for source in select.select(sources, [], [])[0]:
        try:
            data = os.read(source, 65536)
        except OSError:  # Linux says so when the command has closed its side.
            data = b""
        if not data:
            sources.remove(source)
        else:
            os.write(terminal if source == 0 else 1, data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
