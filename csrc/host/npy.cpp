#include "npy.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "errors.h"

namespace host {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLongestHeader = 10'000;   // NumPy's own limit; a usual header has about 120 bytes
constexpr size_t kPiece = 1 << 20;          // bytes read at once
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // Throws CallError with the reason alone, without the file's name.
  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      bool& seen = key == "descr" ? has_descr : key == "fortran_order" ? has_order : has_shape;
      if (seen) fail();
      seen = true;
      if (key == "descr") {
        if (peek() == '[') throw CallError("it holds records with named fields, not one number for each element");
        header.descr = quoted();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else if (key == "shape") {
        header.shape = shape();
      } else {
        fail();
      }
      if (!accept(',') && peek() != '}') fail();
    }
    peek();
    if (!ended_ || !has_descr || !has_order || !has_shape) fail();
    return header;
  }

 private:
  [[noreturn]] static void fail() { throw CallError("its header is damaged"); }

  // The next character that is not a space, or 0 at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : (ended_ = true, '\0');
  }
  bool accept(char wanted) {
    if (peek() != wanted || ended_) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail();
  }

  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail();
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail();
    const std::string_view inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return std::string(inside);
  }

  bool boolean() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    fail();
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail();
      sizes.push_back(size());
      comma = accept(',');
    }
    if (sizes.size() == 1 && !comma) fail();  // (3) is an int, (3,) a tuple
    return sizes;
  }

  int64_t size() {
    if (!std::isdigit(static_cast<unsigned char>(peek()))) fail();
    const size_t start = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value)) {
        throw CallError("its shape has a size that does not fit into int64");
      }
    }
    if (text_[start] == '0' && at_ - start > 1) fail();  // Python has no 03
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool ended_ = false;
};

std::string read_exactly(std::istream& in, size_t count, const char* what) {
  std::string bytes(count, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(count));
  if (static_cast<size_t>(in.gcount()) != count) throw CallError(make_string("it ends inside its ", what));
  return bytes;
}

std::string read_header(std::istream& in) {
  std::string magic(kMagic.size(), '\0');
  in.read(magic.data(), static_cast<std::streamsize>(magic.size()));
  if (magic != kMagic) throw CallError("it is not a .npy file: write one with numpy.save");
  const std::string version = read_exactly(in, 2, "header");
  const int major = static_cast<unsigned char>(version[0]), minor = static_cast<unsigned char>(version[1]);
  if (major < 1 || major > 3 || minor != 0) {
    throw CallError(make_string("it is of version ", major, ".", minor, " of the format; 1.0, 2.0 and 3.0 are supported"));
  }
  const std::string bytes = read_exactly(in, major == 1 ? 2 : 4, "header");
  size_t length = 0;
  for (size_t i = bytes.size(); i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > kLongestHeader) throw CallError(make_string("its header claims to have ", length, " bytes"));
  return read_exactly(in, length, "header");
}

const DType& find_dtype(const std::string& descr) {
  for (const DType& dtype : dtypes()) {
    if (descr == dtype.descr) return dtype;
  }
  if (descr.size() > 1 && descr[0] == '>') {
    throw CallError(make_string("its numbers are big endian (", descr,
                                "): convert them with array.astype(array.dtype.newbyteorder('<'))"));
  }
  if (descr.find('O') != std::string::npos) throw CallError("it holds Python objects, not numbers");
  throw CallError(make_string("its dtype ", descr, " is not supported"));
}

uint64_t bytes_of(const std::vector<int64_t>& shape, const DType& dtype) {
  uint64_t bytes = dtype.size;
  bool empty = false;
  for (const int64_t size : shape) {
    empty |= size == 0;  // an empty array is checked too: other code may multiply the other sizes first
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(std::max<int64_t>(size, 1)), &bytes) || bytes > kMostBytes) {
      throw CallError(make_string("its shape ", shape_text(shape), " is larger than any memory"));
    }
  }
  return empty ? 0 : bytes;
}

Array read(std::istream& in) {
  const std::string text = read_header(in);
  const Header header = HeaderParser(text).parse();
  Array array;
  array.dtype = &find_dtype(header.descr);
  array.shape = header.shape;
  if (header.fortran_order && header.shape.size() > 1) {
    throw CallError("it is in Fortran order: save numpy.ascontiguousarray(array) instead");
  }
  const uint64_t bytes = bytes_of(array.shape, *array.dtype);
  while (array.data.size() < bytes) {  // piece by piece: a wrong shape must not allocate more than the file has
    const size_t before = array.data.size();
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(kPiece, bytes - before));
    array.data.resize(before + piece);
    in.read(array.data.data() + before, static_cast<std::streamsize>(piece));
    const size_t got = static_cast<size_t>(in.gcount());
    if (got != piece) {
      throw CallError(make_string("it is cut off: ", array.dtype->name, shape_text(array.shape), " has ", bytes,
                                  " bytes, but the file has ", before + got, " of them"));
    }
  }
  if (in.peek() != std::istream::traits_type::eof()) throw CallError("it has data after the array's last element");
  if (std::string_view(array.dtype->name) == "bool") {
    // A kernel may use any bit of a bool's byte as the value.
    for (const char value : array.data) {
      if (value != 0 && value != 1) throw CallError("it has a bool that is neither 0 nor 1");
    }
  }
  return array;
}

}  // namespace

const std::vector<DType>& dtypes() {
  static const std::vector<DType> known = {
      {"float16", "<f2", 2}, {"float32", "<f4", 4}, {"float64", "<f8", 8}, {"bool", "|b1", 1},
      {"int8", "|i1", 1},    {"int16", "<i2", 2},   {"int32", "<i4", 4},   {"int64", "<i8", 8},
      {"uint8", "|u1", 1},   {"uint16", "<u2", 2},  {"uint32", "<u4", 4},  {"uint64", "<u8", 8},
  };
  return known;
}

Array read_npy(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw CallError(make_string(file.string(), " is a folder, not a .npy file."));
  }
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) throw CallError(make_string(file.string(), " cannot be read: ", std::strerror(errno), "."));
  try {
    return read(in);
  } catch (const CallError& error) {
    throw CallError(make_string(file.string(), " cannot be used: ", error.what(), "."));
  }
}

void write_npy(const std::filesystem::path& file, const DType& dtype, const std::vector<int64_t>& shape,
               const void* data) {
  std::string tuple = "(";
  for (const int64_t size : shape) tuple += std::to_string(size) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) tuple.resize(tuple.size() - 2);
  std::string header = make_string("{'descr': '", dtype.descr, "', 'fortran_order': False, 'shape': ", tuple, "), }");
  // The array begins at a multiple of 64 bytes, so that numpy.load can map it. The header ends with a newline.
  constexpr size_t before = 10;
  header.append((64 - (before + header.size() + 1) % 64) % 64, ' ') += '\n';
  const char length[] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};

  std::filesystem::path part = file;
  part += ".part";
  errno = 0;
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << kMagic << '\x01' << '\0';
  out.write(length, 2) << header;
  out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes_of(shape, dtype)));
  out.close();
  std::error_code failed;
  if (out) std::filesystem::rename(part, file, failed);
  if (!out || failed) {
    const std::string why = failed ? failed.message() : std::strerror(errno);
    std::filesystem::remove(part, failed);
    throw RunError(make_string(file.string(), " cannot be written: ", why, "."));
  }
}

}  // namespace host
