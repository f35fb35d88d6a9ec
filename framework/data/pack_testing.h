// Packs bytes as gzip and zstd do. For tests.
#ifndef SLUICE_FRAMEWORK_DATA_GZIP_TESTING_H_
#define SLUICE_FRAMEWORK_DATA_GZIP_TESTING_H_

#include <zlib.h>
#include <zstd.h>

#include <string>

#include "framework/base/log.h"

namespace sluice {

inline std::string Gzipped(std::string bytes) {
  z_stream stream = {};
  constexpr int kGzipHeader = 16 + MAX_WBITS;
  SLUICE_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipHeader, 8,
                            Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<uint8_t*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  SLUICE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  SLUICE_CHECK(deflateEnd(&stream) == Z_OK);
  return packed;
}

inline std::string Zstandard(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), /*level=*/9);
  SLUICE_CHECK(ZSTD_isError(size) == 0);
  packed.resize(size);
  return packed;
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_GZIP_TESTING_H_
