#include "deploy/operator/preparation/image_reader.h"

#include <jpeglib.h>
#include <stdio.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/byte_source.h"

#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// A new pixel of one axis is sum_i weights[i] old[first + i]; the weights sum to 1.
struct Blend {
  int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Blend> Blends(int64_t from, int64_t to) {
  std::vector<Blend> blends(static_cast<size_t>(to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    Blend& blend = blends[i];
    if (to < from) {
      const double begin = static_cast<double>(i) * step;
      const double end = std::min(begin + step, static_cast<double>(from));
      blend.first = static_cast<int64_t>(begin);
      for (int64_t old = blend.first; static_cast<double>(old) < end; ++old) {
        const auto left = static_cast<double>(old);
        blend.weights.push_back(static_cast<float>((std::min(left + 1, end) - std::max(left, begin)) / step));
      }
    } else {
      const double centre = std::clamp((static_cast<double>(i) + 0.5) * step - 0.5, 0.0, static_cast<double>(from - 1));
      blend.first = std::min(static_cast<int64_t>(centre), std::max<int64_t>(from - 2, 0));
      const auto right = static_cast<float>(centre - static_cast<double>(blend.first));
      blend.weights = from > 1 ? std::vector<float>{1 - right, right} : std::vector<float>{1};
    }
    // The last area may reach over the end by a rounding.
    blend.weights.resize(std::min<size_t>(blend.weights.size(), static_cast<size_t>(from - blend.first)));
  }
  return blends;
}

float Apply(const Blend& blend, const float* old, int64_t stride) {
  float sum = 0;
  for (size_t i = 0; i < blend.weights.size(); ++i) {
    sum += blend.weights[i] * old[(blend.first + static_cast<int64_t>(i)) * stride];
  }
  return sum;
}

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
    // libjpeg fills in what a damaged file lacks and only warns: such pixels are nobody's data.
    return errors_.manager.num_warnings == 0;
  }
  int64_t height() const { return decoder_.image_height; }
  int64_t width() const { return decoder_.image_width; }

 private:
  absl::string_view bytes_;
  Errors errors_ = {};
  jpeg_decompress_struct decoder_ = {};
};

constexpr size_t kMaxFileBytes = size_t{64} << 20;

// Reads up to `bytes`, less only at the end.
absl::StatusOr<size_t> ReadFully(ByteSource& source, char* out, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const absl::StatusOr<size_t> got = source.Read(out + done, bytes - done);
    if (!got.ok() || *got == 0) {
      return got.ok() ? absl::StatusOr<size_t>(done) : got;
    }
    done += *got;
  }
  return done;
}

bool SameSize(const ImageShape& a, const ImageShape& b) { return a.height == b.height && a.width == b.width; }

// One JPEG file per row.
class ImageFolder : public ImageReader {
 public:
  ImageFolder(const Options& options, const ImageShape& shape)
      : ImageReader(shape),
        folder_(options.path),
        suffix_(options.images.file_suffix()),
        resize_(options.image_size > 0) {}

  absl::Status Read(int64_t /*row*/, absl::string_view name, std::vector<uint8_t>& pixels) override {
    if (name.empty()) {
      return absl::InvalidArgumentError("expected the name of an image, found none");
    }
    const absl::StatusOr<std::unique_ptr<ByteSource>> file =
        ByteSource::Open(absl::StrCat(folder_, "/", name, suffix_), ByteSource::Contents::kBytes);
    if (!file.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the image ", file.status().message()));
    }
    bytes_.resize(kMaxFileBytes);
    const absl::StatusOr<size_t> size = ReadFully(**file, bytes_.data(), bytes_.size());
    // A full buffer may be a file cut short: refused rather than decoded in part.
    if (!size.ok() || *size == bytes_.size()) {
      return size.ok() ? absl::InvalidArgumentError("expected an image file below 64 MiB, found a larger one")
                       : size.status();
    }
    SPLITVEIL_ASSIGN_OR_RETURN(DecodedImage image, DecodeJpeg({bytes_.data(), *size}, shape().channels));
    if (!resize_ && !SameSize(image.shape, shape())) {
      return absl::InvalidArgumentError(absl::StrCat("expected an image of ", shape().width, " x ", shape().height,
                                                     " pixels, found ", image.shape.width, " x ", image.shape.height));
    }
    pixels = SameSize(image.shape, shape()) ? std::move(image.pixels) : ResizeImage(image.pixels, image.shape, shape());
    return absl::OkStatus();
  }
  absl::Status Finish(int64_t /*rows*/) override { return absl::OkStatus(); }

 private:
  std::string folder_, suffix_;
  bool resize_;
  std::vector<char> bytes_;
};

// All images in one array, in the order of the table.
class ImageArray : public ImageReader {
 public:
  ImageArray(const Options& options, const ImageShape& stored, const ImageShape& shape,
             std::unique_ptr<ByteSource> source)
      : ImageReader(shape), path_(options.path), stored_(stored), source_(std::move(source)) {
    bytes_.resize(static_cast<size_t>(stored_.pixels()));
  }

  absl::Status Read(int64_t row, absl::string_view /*name*/, std::vector<uint8_t>& pixels) override {
    for (; next_ <= row; ++next_) {  // Those of rows that cannot be used are passed over.
      const absl::StatusOr<size_t> size = ReadFully(*source_, reinterpret_cast<char*>(bytes_.data()), bytes_.size());
      if (!size.ok() || *size < bytes_.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, ": ",
            size.ok() ? absl::StrCat("expected an image for every row, found ", next_) : size.status().message()));
      }
    }
    pixels = ChannelsFirst(bytes_, stored_);
    if (!SameSize(stored_, shape())) {
      pixels = ResizeImage(pixels, stored_, shape());
    }
    return absl::OkStatus();
  }

  absl::Status Finish(int64_t rows) override {
    std::vector<uint8_t> pixels;
    if (next_ < rows) {  // The last rows could not be used.
      SPLITVEIL_RETURN_IF_ERROR(Read(rows - 1, "", pixels));
    }
    char byte;
    const absl::StatusOr<size_t> more = source_->Read(&byte, 1);
    if (more.ok() && *more == 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": ", more.ok() ? absl::StrCat("expected ", rows, " images, found more") : more.status().message()));
  }

 private:
  std::string path_;
  ImageShape stored_;
  std::unique_ptr<ByteSource> source_;
  std::vector<uint8_t> bytes_;  // [height, width, channels]
  int64_t next_ = 0;            // Row of the next image in the file.
};

}  // namespace

std::vector<uint8_t> ChannelsFirst(absl::Span<const uint8_t> pixels, const ImageShape& shape) {
  std::vector<uint8_t> planes(pixels.size());
  const int64_t area = shape.height * shape.width;
  for (int64_t i = 0; i < area; ++i) {
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      planes[channel * area + i] = pixels[i * shape.channels + channel];
    }
  }
  return planes;
}

std::vector<uint8_t> ResizeImage(absl::Span<const uint8_t> pixels, const ImageShape& from, const ImageShape& to) {
  const std::vector<Blend> rows = Blends(from.height, to.height);
  const std::vector<Blend> columns = Blends(from.width, to.width);
  std::vector<uint8_t> resized;
  resized.reserve(static_cast<size_t>(from.channels * to.height * to.width));
  const std::vector<float> old(pixels.begin(), pixels.end());
  std::vector<float> wide(static_cast<size_t>(from.height * to.width));  // Of the new width, one channel.
  for (int64_t channel = 0; channel < from.channels; ++channel) {
    const float* const plane = old.data() + channel * from.height * from.width;
    for (int64_t y = 0; y < from.height; ++y) {
      for (int64_t x = 0; x < to.width; ++x) {
        wide[y * to.width + x] = Apply(columns[x], plane + y * from.width, 1);
      }
    }
    for (int64_t y = 0; y < to.height; ++y) {
      for (int64_t x = 0; x < to.width; ++x) {
        resized.push_back(
            static_cast<uint8_t>(std::lround(std::min(Apply(rows[y], wide.data() + x, to.width), 255.0F))));
      }
    }
  }
  return resized;
}

absl::StatusOr<DecodedImage> DecodeJpeg(absl::string_view bytes, int64_t channels) {
  Decoder decoder(bytes);
  if (bytes.empty() || !decoder.ReadHeader(channels)) {
    return absl::InvalidArgumentError("expected a JPEG image, found none");
  }
  DecodedImage image;
  image.shape = {channels, decoder.height(), decoder.width()};
  // Before memory is taken for it: a header of a few bytes may claim 65,535 x 65,535 pixels.
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

absl::StatusOr<std::unique_ptr<ImageReader>> ImageReader::Open(const Options& options) {
  const ImageShape stored = {options.images.channels(), options.images.height(), options.images.width()};
  if (options.path.empty()) {
    return absl::InvalidArgumentError("images: expected the path of the images that the schema describes, found none");
  }
  if (options.image_size < 0 || options.image_size > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("image_size: expected a number in [0, 4096], found ", options.image_size));
  }
  if (stored.pixels() == 0 && !(options.named && options.image_size > 0)) {
    return absl::InvalidArgumentError(
        "table schema: images: expected height and width, as of every array and of files that are not resized");
  }
  const ImageShape shape =
      options.image_size > 0 ? ImageShape{stored.channels, options.image_size, options.image_size} : stored;
  if (options.named) {
    if (stored.channels != 1 && stored.channels != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("table schema: images.channels: expected 1 or 3 of JPEG files, found ", stored.channels));
    }
    return std::make_unique<ImageFolder>(options, shape);
  }
  absl::StatusOr<std::unique_ptr<ByteSource>> source = ByteSource::Open(options.path, ByteSource::Contents::kBytes);
  SPLITVEIL_RETURN_IF_ERROR(Within(options.path, source.status()));
  return std::make_unique<ImageArray>(options, stored, shape, *std::move(source));
}

}  // namespace splitveil
