// Three ways to pass a number: a copy, a reference, and a pointer.
namespace {

void by_value(int number) { number += 10; }        // changes its own copy
void by_reference(int& number) { number += 100; }  // changes the caller's variable
void by_pointer(int* number) { *number += 1000; }  // changes what the address leads to

}  // namespace

extern "C" int pass_it_on(int start) {
  int number = start;
  by_value(number);
  by_reference(number);
  by_pointer(&number);
  return number;
}
