"""Shows results: in the terminal, as Markdown tables, as pictures."""
