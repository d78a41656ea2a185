// Gzip members made in memory, for tests.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_PREPARATION_GZIP_BYTES_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_PREPARATION_GZIP_BYTES_H_

#include <zlib.h>

#include <cstdlib>
#include <string>

namespace splitveil {

// `text` as one gzip member.
inline std::string GzipBytes(std::string text) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    std::abort();
  }
  std::string bytes(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(&text[0]);
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(&bytes[0]);
  stream.avail_out = static_cast<uInt>(bytes.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) {
    std::abort();
  }
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_PREPARATION_GZIP_BYTES_H_
