// An object that reports when it is created and when it is destroyed.
#include <cstdio>
#include <memory>

namespace {

class Guest {
 public:
  explicit Guest(const char* name) : name_(name) { std::printf("%s arrives\n", name_); }
  ~Guest() { std::printf("%s leaves\n", name_); }
  Guest(const Guest&) = delete;  // there is one of each: no copies

 private:
  const char* name_;
};

}  // namespace

extern "C" void visit(int early) {
  const Guest first{"first"};
  const auto second = std::make_unique<Guest>("second");  // on the heap, owned by `second`
  if (early) {
    std::printf("return early\n");
    std::fflush(stdout);
    return;
  }
  const Guest third{"third"};
  std::printf("the end\n");
  std::fflush(stdout);
}
