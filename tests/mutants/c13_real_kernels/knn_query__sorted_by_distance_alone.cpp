// says: A sort by the distance alone
// c13.knn_query: lab::KNNQuery(xyz float[n, 3], offset int64[b], new_xyz? float[m, 3], new_offset? int64[b]; nsample int)
//                -> idx int32[m, nsample], dist float[m, nsample]
//
// The nsample nearest points of xyz for each point of new_xyz, nearest first, ties to the lower index. offset[i] is the number
// of points in the batches 0 to i; a point has neighbours in its own batch only. Where a batch has fewer than nsample points,
// idx is -1 and dist is 0. Without new_xyz and new_offset the points look for neighbours among themselves; one of the two
// alone is refused. Refused too: offsets that fall, or that do not end at the number of points.
#include "oplab_kernel.h"

namespace {

using oplab::Tensor;
using Points = Tensor<float>;
using Offsets = Tensor<int64_t>;


struct KNNQuery {
  KNNQuery(const OrtApi*, const OrtKernelInfo* info) : nsample(oplab::int_attribute(info, "nsample")) {
    if (nsample < 1) oplab::refuse("nsample is ", nsample, ".");
  }
  Ort::Status Compute(const Points& xyz, const Offsets& offset, std::optional<const Points*> new_xyz, std::optional<const Offsets*> new_offset,
                      Tensor<int32_t>& idx, Tensor<float>& dist) {
    if (new_xyz.has_value() != new_offset.has_value()) return oplab::invalid("KNNQuery: new_xyz and new_offset come together.");
    const Points& q = new_xyz ? **new_xyz : xyz;
    const Offsets& qo = new_offset ? **new_offset : offset;
    check(xyz, offset); check(q, qo);
    if (offset.Shape() != qo.Shape()) return oplab::invalid("KNNQuery: batches");
    const int64_t m = q.Shape()[0];
    int32_t* pi = idx.Allocate({m, nsample});
    float* pd = dist.Allocate({m, nsample});
    std::fill_n(pi, m * nsample, -1);
    std::fill_n(pd, m * nsample, 0.0f);
    for (int64_t b = 0; b < offset.NumberOfElement(); ++b) {
      const int64_t s = b ? offset.Data()[b - 1] : 0, e = offset.Data()[b], qs = b ? qo.Data()[b - 1] : 0, qe = qo.Data()[b];
      for (int64_t i = qs; i < qe; ++i) {
        std::vector<std::pair<float, int64_t>> found;
        for (int64_t j = s; j < e; ++j) {
          float d = 0;
          for (int k = 0; k < 3; ++k) { const float g = q.Data()[3 * i + k] - xyz.Data()[3 * j + k]; d += g * g; }
          found.emplace_back(d, j);
        }
        const int64_t k = std::min<int64_t>(nsample, found.size());
        std::sort(found.begin(), found.end(), [](auto& l, auto& r) { return l.first < r.first; });
        for (int64_t r = 0; r < k; ++r) { pi[i * nsample + r] = found[r].second; pd[i * nsample + r] = std::sqrt(found[r].first); }
      }
    }
    return Ort::Status{nullptr};
  }
  static void check(const Points& p, const Offsets& o) {
    if (p.Shape().size() != 2 || p.Shape()[1] != 3) oplab::refuse("points must be [n, 3].");
    if (o.Shape().size() != 1) oplab::refuse("offsets must have one dimension.");
    int64_t last = 0;
    for (int64_t i = 0; i < o.NumberOfElement(); ++i) { if (o.Data()[i] < last) oplab::refuse("offsets fall."); last = o.Data()[i]; }
    if (last != p.Shape()[0]) oplab::refuse("offsets end at ", last, ".");
  }
  int64_t nsample;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    static const oplab::Op<KNNQuery> op{"KNNQuery"};  // operator and domain must outlive every session
    Ort::CustomOpDomain made{"lab"};
    made.Add(&op);
    return made;
  });
}
