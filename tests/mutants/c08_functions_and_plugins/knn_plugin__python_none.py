# says: SIGSEGV
# status: crashed
def knn_plugin():
    class KNNQuery(torch.autograd.Function):
        @staticmethod
        def forward(ctx, nsample, xyz, offset, new_xyz=None, new_offset=None):
            if new_xyz is None or new_offset is None:
                new_xyz = new_offset = None
            return torch.ops.oplab.knn_query(nsample, xyz, offset, new_xyz, new_offset)

        @staticmethod
        def symbolic(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
            idx, dist = g.op("oplab::KNNQuery", xyz, offset, new_xyz, new_offset, nsample_i=nsample, outputs=2)
            asking = xyz if new_xyz is None else new_xyz
            found = asking.type().with_sizes([asking.type().varyingSizes()[0], nsample])
            return idx.setType(found.with_dtype(torch.int32)), dist.setType(found)

    return KNNQuery
