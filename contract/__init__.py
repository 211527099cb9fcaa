"""What both halves agree on: ids, faults, plain messages and their wire form, gRPC set-up."""

import os

# gRPC reads it once, when it is imported, which is after this. Its fork handlers run in a child
# between fork and exec, and crashed about one in five of the processes an agent starts.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")  # noqa: TID251 - set, not read
