"""Helpers for ONNX models that know nothing of the course: loading, subgraphs, names, inputs, domains."""
