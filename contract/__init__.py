"""What both halves agree on: ids, faults, plain messages, their protobuf form, and the gRPC set-up."""
