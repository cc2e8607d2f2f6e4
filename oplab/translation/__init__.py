"""The course in other languages: English is the source, and each translation is a folder of gettext catalogues in ``oplab/locale``."""
