# says: g.op makes one output unless it is told outputs=2
def knn_plugin():
    class KNNQuery(torch.autograd.Function):
        @staticmethod
        def forward(ctx, nsample, xyz, offset, new_xyz=None, new_offset=None):
            if new_xyz is None or new_offset is None:
                new_xyz = new_offset = None
            return torch.ops.oplab.knn_query(nsample, xyz, offset, new_xyz, new_offset)

        @staticmethod
        def symbolic(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
            own = new_xyz is None or new_offset is None
            asking, inputs = (xyz, []) if own else (new_xyz, [new_xyz, new_offset])
            idx, dist = g.op("oplab::KNNQuery", xyz, offset, *inputs, nsample_i=nsample)
            found = asking.type().with_sizes([asking.type().varyingSizes()[0], nsample])
            return idx.setType(found.with_dtype(torch.int32)), dist.setType(found)

    return KNNQuery
