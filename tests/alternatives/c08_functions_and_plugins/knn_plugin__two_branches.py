"""As older texts write it: one g.op for each way."""


def knn_plugin():
    class KNNQuery(torch.autograd.Function):
        @staticmethod
        def forward(ctx, nsample, xyz, offset, new_xyz=None, new_offset=None):
            if new_xyz is None or new_offset is None:
                new_xyz = new_offset = None
            return torch.ops.oplab.knn_query(nsample, xyz, offset, new_xyz, new_offset)

        @staticmethod
        def symbolic(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
            asking = xyz
            if new_xyz is None or new_offset is None:
                both = g.op("oplab::KNNQuery", xyz, offset, nsample_i=nsample, outputs=2)
            else:
                asking = new_xyz
                both = g.op("oplab::KNNQuery", xyz, offset, new_xyz, new_offset, nsample_i=nsample, outputs=2)
            for value, dtype in zip(both, (torch.int32, torch.float32), strict=True):
                value.setType(asking.type().with_dtype(dtype).with_sizes([None, nsample]))
            return both

    return KNNQuery
