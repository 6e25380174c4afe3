"""The nursery, asked by the lines of its protocol.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where numpy is not installed there.
"""

import json
import os
import signal
import socket
import struct
import unittest
from pathlib import Path

from need_package import need

need("numpy", "./run installs it")

from attest import nursery


class Nursery(unittest.TestCase):
    """A nursery whose lives do nothing until they are killed."""

    def setUp(self):
        # 3 and 4 are the arena's and the mailbox's, as in a worker.
        self.places = [os.open(os.devnull, os.O_RDONLY) for _ in range(nursery.MAILBOX_FILE + 1)]
        self.control, theirs = socket.socketpair()
        self.control.settimeout(20)
        self.process = os.fork()
        if self.process == 0:
            self.control.close()
            if nursery.tend(theirs) is not None:
                signal.pause()
            os._exit(0)
        theirs.close()

    def tearDown(self):
        self.control.close()
        for place in self.places:
            os.close(place)
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def tell(self, **message):
        self.control.sendall(nursery.line(**message))

    def bear(self):
        """The number of a new life."""
        ours, its = socket.socketpair()
        ours.settimeout(20)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        files = [its.fileno(), os.memfd_create("arena"), os.memfd_create("mailbox")]
        socket.send_fds(self.control, [nursery.line(message="life")], files)
        its.close()
        for file in files[1:]:
            os.close(file)
        size = struct.calcsize("iII")  # struct ucred: the number comes from the system, not from what the life says
        _, told, _, _ = ours.recvmsg(1 << 12, socket.CMSG_SPACE(size))
        ours.close()
        return struct.unpack("iII", told[0][2][:size])[0]

    def children(self):
        return set(map(int, Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split()))

    def test_no_life_waits_for_one_that_is_long_in_dying(self):
        dying = self.bear()
        self.tell(message="bury", pid=dying)  # it lives on, as one does of which a driver does not let go
        following = self.bear()
        self.assertEqual(self.children(), {dying, following})

    def test_those_buried_are_gone_once_they_have_died(self):
        dying = self.bear()
        self.tell(message="bury", pid=dying)
        os.kill(dying, signal.SIGKILL)
        while Path(f"/proc/{dying}/stat").read_text().rpartition(") ")[2][0] != "Z":
            pass
        following = self.bear()
        self.assertEqual(self.children(), {following})

    def test_requests_may_come_together(self):
        dying = self.bear()
        os.kill(dying, signal.SIGKILL)
        while Path(f"/proc/{dying}/stat").read_text().rpartition(") ")[2][0] != "Z":
            pass
        self.control.sendall(nursery.line(message="bury", pid=dying) + nursery.line(message="reap", pid=self.process))
        self.control.recv(1 << 12)
        self.assertEqual(self.children(), set())

    def test_a_reaped_life_tells_how_it_went(self):
        life = self.bear()
        os.kill(life, signal.SIGUSR1)
        self.tell(message="reap", pid=life)
        told = json.loads(self.control.recv(1 << 12))
        self.assertEqual((told["pid"], os.WTERMSIG(told["status"])), (life, signal.SIGUSR1))


if __name__ == "__main__":
    unittest.main()
