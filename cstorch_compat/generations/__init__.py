"""One facade for each generation of the API; also what `import cerebras` finds."""
