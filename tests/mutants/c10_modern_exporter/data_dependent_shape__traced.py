# says: voxel_pool is to be one operator
def data_dependent_shape():
    def voxel_pool(points, size):
        _, cell_of, counts = torch.unique(torch.floor(points / size), dim=0, return_inverse=True, return_counts=True)
        sums = points.new_zeros(counts.shape[0], points.shape[1]).index_add(0, cell_of, points)
        return sums / counts[:, None], counts

    return voxel_pool, {}
