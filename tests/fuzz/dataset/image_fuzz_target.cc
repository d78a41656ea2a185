// Feeds arbitrary bytes to the decoder of JPEG files, and checks what the resizing behind it relies on.
#include <cstdint>

#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/image_reader.h"

#include "tests/fuzz/dataset/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace splitveil;  // NOLINT(google-build-using-namespace): one function.
  for (const int64_t channels : {1, 3}) {
    const absl::StatusOr<DecodedImage> image = DecodeJpeg({reinterpret_cast<const char*>(bytes), size}, channels);
    if (!image.ok()) {
      Require(image.status().code() == absl::StatusCode::kInvalidArgument);
      continue;
    }
    const ImageShape& shape = image->shape;
    Require(shape.channels == channels && shape.height >= 1 && shape.width >= 1);
    Require(static_cast<int64_t>(image->pixels.size()) == shape.pixels());
  }
  return 0;
}
