"""Code that is not trusted: it runs in processes of its own, and what they answer is data."""
