"""Your own operator, outside of the course: ``oplab new-operator``, ``oplab build``, ``oplab test``. See docs/your_operator.md."""
