// Four functions. Which of them can another program find, and by which name?
namespace lesson {
int twice(int x) { return 2 * x; }
double twice(double x) { return 2 * x; }
}  // namespace lesson

namespace {
int hidden(int x) { return lesson::twice(x) + 1; }
}  // namespace

extern "C" int plain(int x) { return hidden(x); }
