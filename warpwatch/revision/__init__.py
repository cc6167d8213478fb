"""Another revision's sources and declarations."""
