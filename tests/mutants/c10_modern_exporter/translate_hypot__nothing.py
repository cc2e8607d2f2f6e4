# says: Expected a dict, the table, got NoneType
def translate_hypot():
    return None
