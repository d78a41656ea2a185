// JPEG files to pixels.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_DECODE_JPEG_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_DECODE_JPEG_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/dataset/feature_shape.h"

namespace splitveil {

struct DecodedImage {
  ImageShape shape;
  std::vector<uint8_t> pixels;  // [channels, height, width]
};

// `channels`: 3 for red, green, blue, or 1 for luminance. InvalidArgument where the bytes are no JPEG image that can be
// converted so, are damaged or cut short (what a viewer would still show is refused too), or hold more than 2^26
// pixels. Thread-safe.
absl::StatusOr<DecodedImage> DecodeJpeg(absl::string_view bytes, int64_t channels);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_DECODE_JPEG_H_
