"""The ``isoprof`` command: profiles over REST, and a look into profile files.

It knows neither half of the system.
"""
