// What `plant` in tests/explain/planted/__init__.py looks for: with PLANTED defined, each kernel has one fault that
// makes it slower and leaves its results as they are.
