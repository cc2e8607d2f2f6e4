"""All distances at once, other batches infinitely far, the order by lexsort."""

def reference_knn():
    class KNNQuery(OpRun):
        op_domain = "oplab"

        def _run(self, *inputs, nsample):
            xyz, offset, new_xyz, new_offset = (*inputs, None, None)[:4]
            if new_xyz is None:
                new_xyz, new_offset = xyz, offset
            batch = np.searchsorted(offset, np.arange(len(xyz)), side="right")
            new_batch = np.searchsorted(new_offset, np.arange(len(new_xyz)), side="right")
            away = np.linalg.norm(new_xyz[:, None].astype(np.float64) - xyz[None], axis=2)
            away[new_batch[:, None] != batch] = np.inf
            away = np.concatenate([away, np.full((len(new_xyz), nsample), np.inf)], axis=1)
            idx = np.argsort(away, axis=1, kind="stable")[:, :nsample]
            dist = np.take_along_axis(away, idx, axis=1)
            idx[np.isinf(dist)] = -1
            return idx.astype(np.int32), np.where(np.isinf(dist), 0, dist).astype(np.float32)

    return KNNQuery
