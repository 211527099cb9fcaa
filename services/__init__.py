"""The processes one starts, and what only they share."""

import os
import sys

from services import core_log

# Here, because gRPC reads it as it is imported: its own lines on stderr would be no JSON.
if {"services.control_plane", "services.edge_agent"} & set(sys.orig_argv):
    core_log.divert()
else:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
