"""The processes one starts, and what only they share."""

import os

# Here, because gRPC reads it as it is imported: its own lines on stderr would be no JSON.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
