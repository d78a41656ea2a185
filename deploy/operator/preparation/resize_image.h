// Images in another layout or size.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_RESIZE_IMAGE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_RESIZE_IMAGE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/dataset/feature_shape.h"

namespace splitveil {

// [height, width, channels], as files store them, to [channels, height, width], as models take them. `shape`: of both.
std::vector<uint8_t> ChannelsFirst(absl::Span<const uint8_t> pixels, const ImageShape& shape);

// `pixels`: [channels, height, width] as `from` has it, at least one pixel; the result has the channels of `from` and
// the height and width of `to`. Along an axis that shrinks, a new pixel is the mean of the area it covers; along one
// that grows, it lies between the centres of its two neighbours (bilinear), the border repeated. Rounded to the
// nearest.
std::vector<uint8_t> ResizeImage(absl::Span<const uint8_t> pixels, const ImageShape& from, const ImageShape& to);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_RESIZE_IMAGE_H_
