# does: If within If, 5000 times, written byte by byte: a reader that recurses runs out of stack
# stopped by: split
# status: failed
# says: not an ONNX model


def net(path):
    def field(number, data):
        size, out = len(data), bytes([number << 3 | 2])
        while size > 127:
            out, size = out + bytes([size & 127 | 128]), size >> 7
        return out + bytes([size]) + data

    graph = b""
    for _ in range(5000):  # graph: node (1): attribute (5): g (6)
        graph = field(1, field(5, field(6, graph)))
    open(path, "wb").write(b"\x08\x0a" + field(7, graph))
