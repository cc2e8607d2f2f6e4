# says: reduction="add"
def data_dependent_shape():
    @torch.library.custom_op("c10ex::voxel_pool", mutates_args=())
    def voxel_pool(points: torch.Tensor, size: float) -> tuple[torch.Tensor, torch.Tensor]:
        _, cell_of, counts = torch.unique(torch.floor(points / size), dim=0, return_inverse=True, return_counts=True)
        sums = points.new_zeros(len(counts), points.shape[1]).index_add_(0, cell_of, points)
        return sums / counts[:, None], counts

    @voxel_pool.register_fake
    def _(points, size):
        m = torch.library.get_ctx().new_dynamic_size()
        return points.new_empty(m, points.shape[1]), points.new_empty(m, dtype=torch.int64)

    def translate(points: FLOAT, size: float) -> tuple[FLOAT, INT64]:
        cells = op.Floor(op.Div(points, op.Constant(value_float=size)))
        _, _, cell_of, counts = op.Unique(cells, axis=0)
        shape = op.Concat(op.Shape(counts), op.Shape(points, start=1), axis=0)
        sums = op.ScatterND(op.Expand(0.0, shape), op.Unsqueeze(cell_of, [1]), points)
        return op.Div(sums, op.Cast(op.Unsqueeze(counts, [1]), to=1)), counts

    return voxel_pool, {torch.ops.c10ex.voxel_pool.default: translate}
