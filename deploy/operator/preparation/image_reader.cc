#include "deploy/operator/preparation/image_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/byte_source.h"
#include "deploy/operator/preparation/decode_jpeg.h"
#include "deploy/operator/preparation/resize_image.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

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
        ByteSource::Open(absl::StrCat(folder_, "/", name, suffix_));
    if (!file.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the image ", file.status().message()));
    }
    bytes_.resize(kMaxFileBytes);
    const absl::StatusOr<size_t> size = ReadFully(**file, bytes_.data(), bytes_.size());
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
  absl::StatusOr<std::unique_ptr<ByteSource>> source = ByteSource::Open(options.path);
  if (!source.ok()) {
    return absl::Status(source.status().code(), absl::StrCat(options.path, ": ", source.status().message()));
  }
  return std::make_unique<ImageArray>(options, stored, shape, *std::move(source));
}

}  // namespace splitveil
