// Is x + 1 greater than x? The compiler may assume that it is.
extern "C" bool next_is_greater(int x) {
  const int next = x + 1;
  return next > x;
}
