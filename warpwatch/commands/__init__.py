"""What the subcommands of ``warpwatch`` do, a module a subject."""
