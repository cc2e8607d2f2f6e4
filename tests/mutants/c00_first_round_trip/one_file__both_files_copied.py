# says: without that file the model cannot be loaded
def one_file(source, target):
    import shutil

    for file in (source, source.with_name(source.name + ".data")):
        shutil.copy(file, target.parent)
    source.with_name(source.name)
    (target.parent / source.name).rename(target)
