"""Code that is not trusted: declarations run in processes of their own, and reach this one as data."""
