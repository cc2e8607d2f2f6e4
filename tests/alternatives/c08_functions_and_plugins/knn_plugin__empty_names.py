"""The new points keep their places with empty names."""


def knn_plugin():
    class KNNQuery(torch.autograd.Function):
        @staticmethod
        def forward(ctx, nsample, xyz, offset, new_xyz=None, new_offset=None):
            if new_xyz is None or new_offset is None:
                new_xyz = new_offset = None
            return torch.ops.oplab.knn_query(nsample, xyz, offset, new_xyz, new_offset)

        @staticmethod
        def symbolic(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
            none = g.op("prim::Constant").setType(torch._C.OptionalType.ofTensor())
            asking, rest = new_xyz, [new_xyz, new_offset]
            if new_xyz is None or new_offset is None:
                asking, rest = xyz, [none, none]
            idx, dist = g.op("oplab::KNNQuery", xyz, offset, *rest, nsample_i=nsample, outputs=2)
            rows = asking.type().varyingSizes()[0]
            dist.setType(asking.type().with_sizes([rows, nsample]))
            idx.setType(asking.type().with_sizes([rows, nsample]).with_dtype(torch.int32))
            return idx, dist

    return KNNQuery
