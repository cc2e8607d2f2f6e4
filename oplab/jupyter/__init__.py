"""The course in JupyterLab: a server extension, and the panel and start page that it serves (``labextension/``).

Importing this package is cheap, because Jupyter's server does it at its start.
"""
