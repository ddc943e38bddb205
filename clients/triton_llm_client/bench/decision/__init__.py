"""Which way to serve a model: criteria that were measured, criteria that were judged, and weights."""
