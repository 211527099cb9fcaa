"""The open-source Workers runtime.

``cdp`` is transport, ``inspector`` what the commands mean, ``sessions`` when one may be open,
``targets`` discovery, ``tails`` activity.
"""
