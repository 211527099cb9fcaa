"""The runtimes an agent can sample: workerd through its inspector, and a simulated one."""
