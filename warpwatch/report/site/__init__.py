"""Makes a static site of saved runs: pages that a browser shows from disk or from any web server."""
