"""What is measured beside its peers. Nothing in the course imports this."""
