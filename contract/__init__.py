"""What both halves agree on: ids, faults, plain messages and their wire form, gRPC set-up."""
