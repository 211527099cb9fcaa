"""A development fleet: two datacenters of real ``workerd`` processes and agents, with traffic.

Demo, base of the end-to-end tests and of the benchmarks; ``system.running`` starts it.
"""
