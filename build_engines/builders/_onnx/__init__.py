"""The rooms of the ONNX builder: export → graph (checks) → precision → drift."""
