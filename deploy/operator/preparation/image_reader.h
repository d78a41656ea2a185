// The images of a table's rows.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_IMAGE_READER_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_IMAGE_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/dataset/features.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// [height, width, channels], as files store them, to [channels, height, width], as models take them. `shape`: of both.
std::vector<uint8_t> ChannelsFirst(absl::Span<const uint8_t> pixels, const ImageShape& shape);

// `pixels`: [channels, height, width] as `from` has it, at least one pixel; the result has the channels of `from` and
// the height and width of `to`. Along an axis that shrinks, a new pixel is the mean of the area it covers; along one
// that grows, it lies between the centres of its two neighbours (bilinear), the border repeated. Rounded to the
// nearest.
std::vector<uint8_t> ResizeImage(absl::Span<const uint8_t> pixels, const ImageShape& from, const ImageShape& to);

struct DecodedImage {
  ImageShape shape;
  std::vector<uint8_t> pixels;  // [channels, height, width]
};

// `channels`: 3 for red, green, blue, or 1 for luminance. InvalidArgument if the bytes are no JPEG image that can be
// converted so, are damaged or cut short (what a viewer would still show is refused too), or hold more than 2^26
// pixels. Thread-safe.
absl::StatusOr<DecodedImage> DecodeJpeg(absl::string_view bytes, int64_t channels);

// Constant memory. Not thread-safe.
class ImageReader {
 public:
  struct Options {
    v1::Images images;  // Valid by its options.
    // A folder of JPEG files if the table names them, else one array of all images, plain or gzip.
    std::string path;
    bool named = false;
    // Side of the square that images are resized to (resize_image.h); 0: as they are.
    int64_t image_size = 0;
  };
  // NotFound; InvalidArgument if the size of the images is not known or the file cannot be read.
  static absl::StatusOr<std::unique_ptr<ImageReader>> Open(const Options& options);
  virtual ~ImageReader() = default;

  // Of every image, resized.
  const ImageShape& shape() const { return shape_; }
  // The image of table row `row`, from 0 and ascending, which the table calls `name`: [channels, height, width].
  // InvalidArgument if it is missing or damaged, with the file but without its name in the table.
  virtual absl::Status Read(int64_t row, absl::string_view name, std::vector<uint8_t>& pixels) = 0;
  // After the last of `rows` rows. InvalidArgument if there are more images.
  virtual absl::Status Finish(int64_t rows) = 0;

 protected:
  explicit ImageReader(const ImageShape& shape) : shape_(shape) {}

 private:
  ImageShape shape_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_IMAGE_READER_H_
