"""The profile toolbox: model, check, build from V8, codec, merge, top table; knows neither half."""
