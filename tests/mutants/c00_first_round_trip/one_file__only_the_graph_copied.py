# says: are not in the file but in
def one_file(source, target):
    target.write_bytes(source.read_bytes())
