"""Runtimes of models that attest ships, a module each, which declares one with @attest.runtime: `attest fuzz model.onnx --on NAME`."""
