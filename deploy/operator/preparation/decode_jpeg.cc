#include "deploy/operator/preparation/decode_jpeg.h"

// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
#include <stdio.h>

#include <csetjmp>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/resize_image.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26;

// libjpeg reports errors by calls that must not return. Frames between setjmp and its calls hold nothing to destroy.
struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
};

[[noreturn]] void Jump(j_common_ptr decoder) { std::longjmp(reinterpret_cast<Errors*>(decoder->err)->jump, 1); }

void Ignore(j_common_ptr /*decoder*/) {}

// libjpeg's state; freed whatever happened.
class Decoder {
 public:
  explicit Decoder(absl::string_view bytes) : bytes_(bytes) {
    decoder_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = Jump;
    errors_.manager.output_message = Ignore;
    jpeg_create_decompress(&decoder_);
  }
  ~Decoder() { jpeg_destroy_decompress(&decoder_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  bool ReadHeader(int64_t channels) {
    if (setjmp(errors_.jump) != 0) {
      return false;
    }
    jpeg_mem_src(&decoder_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&decoder_, TRUE);
    decoder_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    return true;
  }
  // `rows`: [height, width, channels].
  bool ReadRows(uint8_t* rows) {
    if (setjmp(errors_.jump) != 0) {
      return false;
    }
    jpeg_start_decompress(&decoder_);
    while (decoder_.output_scanline < decoder_.output_height) {
      JSAMPROW row = rows + size_t{decoder_.output_scanline} * decoder_.output_width * decoder_.output_components;
      jpeg_read_scanlines(&decoder_, &row, 1);
    }
    jpeg_finish_decompress(&decoder_);
    return errors_.manager.num_warnings == 0;
  }
  int64_t height() const { return decoder_.image_height; }
  int64_t width() const { return decoder_.image_width; }

 private:
  absl::string_view bytes_;
  Errors errors_ = {};
  jpeg_decompress_struct decoder_ = {};
};

}  // namespace

absl::StatusOr<DecodedImage> DecodeJpeg(absl::string_view bytes, int64_t channels) {
  Decoder decoder(bytes);
  if (bytes.empty() || !decoder.ReadHeader(channels)) {
    return absl::InvalidArgumentError("expected a JPEG image, found none");
  }
  DecodedImage image;
  image.shape = {channels, decoder.height(), decoder.width()};
  if (image.shape.height * image.shape.width > kMaxPixels) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected an image of at most 2^26 pixels, found ", image.shape.width, " x ", image.shape.height));
  }
  std::vector<uint8_t> rows(static_cast<size_t>(image.shape.pixels()));
  if (!decoder.ReadRows(rows.data())) {
    return absl::InvalidArgumentError("expected a whole JPEG image, found a damaged one");
  }
  image.pixels = ChannelsFirst(rows, image.shape);
  return image;
}

}  // namespace splitveil
