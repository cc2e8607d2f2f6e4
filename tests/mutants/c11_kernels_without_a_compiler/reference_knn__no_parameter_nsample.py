# says: it needs a parameter nsample
def reference_knn() -> type[OpRun]:
    class KNNQuery(OpRun):
        op_domain = "oplab"

        def _run(self, xyz, offset, new_xyz=None, new_offset=None):
            nsample = 16
            if new_xyz is None:
                new_xyz, new_offset = xyz, offset
            idx = np.full((len(new_xyz), nsample), -1, np.int32)
            dist = np.zeros((len(new_xyz), nsample), np.float32)
            first = new_first = 0
            for last, new_last in zip(offset.tolist(), new_offset.tolist(), strict=True):
                for query in range(new_first, new_last):
                    away = np.sqrt(((xyz[first:last] - new_xyz[query]) ** 2).sum(axis=1))
                    nearest = np.argsort(away, kind="stable")[:nsample]
                    idx[query, : len(nearest)] = first + nearest
                    dist[query, : len(nearest)] = away[nearest]
                first, new_first = last, new_last
            return idx, dist

    return KNNQuery
