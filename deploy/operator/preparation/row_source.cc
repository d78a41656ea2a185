#include "deploy/operator/preparation/row_source.h"

#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kIdBytes = 16;

std::string LittleEndian(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

absl::uint128 FirstHalfOfHash(absl::string_view id) {
  const Digest digest = Sha256(id);
  absl::uint128 half;
  std::memcpy(&half, digest.data(), sizeof(half));
  return half;
}

}  // namespace

RowSource::RowSource(std::unique_ptr<TableReader> table, std::unique_ptr<ImageReader> images, const Options& options)
    : table_(std::move(table)),
      images_(std::move(images)),
      columns_(table_->columns()),
      skip_bad_rows_(options.skip_bad_rows),
      id_key_(Sha256(absl::StrCat("splitveil.prepare.row_id.v1", LittleEndian(options.seed)))) {
  if (images_ != nullptr) {
    columns_.image = images_->shape();
    columns_.image_holder = options.schema.images().holder();
  }
}

absl::StatusOr<std::unique_ptr<RowSource>> RowSource::Open(const Options& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TableReader> table,
                             TableReader::Open(options.input_paths, options.schema));
  std::unique_ptr<ImageReader> images;
  if (options.schema.has_images()) {
    ImageReader::Options image_options{options.schema.images(), options.images_path, /*named=*/false,
                                       options.image_size};
    for (const v1::TableSchema::Column& column : options.schema.columns()) {
      image_options.named = image_options.named || column.kind() == v1::TableSchema::IMAGE_FILE;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(images, ImageReader::Open(image_options));
  } else if (!options.images_path.empty()) {
    return absl::InvalidArgumentError("images: expected images in the table's schema, found none");
  }
  return std::unique_ptr<RowSource>(new RowSource(std::move(table), std::move(images), options));
}

absl::StatusOr<bool> RowSource::Next(TableRow& row) {
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, table_->Next(row));
    if (!more) {
      const absl::Status finished = images_ == nullptr ? absl::OkStatus() : images_->Finish(table_->rows_read());
      return finished.ok() ? absl::StatusOr<bool>(false) : finished;
    }
    if (row.fault == RowFault::kNone) {
      SetId(row);
    }
    if (row.fault == RowFault::kNone && images_ != nullptr) {
      if (absl::Status status = images_->Read(row_number(), row.image_name, row.pixels); !status.ok()) {
        table_->SetFault(RowFault::kImage, table_->column_of(v1::TableSchema::IMAGE_FILE), status.message(), row);
      }
    }
    if (row.fault == RowFault::kNone) {
      return true;
    }
    if (!skip_bad_rows_) {
      return row.error;
    }
    const auto fault = static_cast<size_t>(row.fault);
    ++skipped_[fault];
    first_errors_[fault].Update(row.error);
  }
}

void RowSource::SetId(TableRow& row) {
  if (!columns().has_id) {
    // Key and number have fixed lengths, so that no input of the hash extends another.
    const Digest digest = Sha256(absl::StrCat(AsBytes(id_key_), LittleEndian(static_cast<uint64_t>(row_number()))));
    made_id_ = absl::BytesToHexString(AsBytes(digest).substr(0, kIdBytes));
    row.id = made_id_;
    return;
  }
  const absl::uint128 half = FirstHalfOfHash(row.id);
  if (!seen_ids_.insert(half).second) {
    table_->SetFault(RowFault::kRepeatedId, table_->column_of(v1::TableSchema::ID),
                     absl::StrCat("expected distinct ids, found one again", skip_bad_rows_ ? "" : FirstPlaceOf(half)),
                     row);
  }
}

std::string RowSource::FirstPlaceOf(absl::uint128 half) const {
  const absl::StatusOr<std::unique_ptr<TableReader>> table = table_->Again();
  TableRow row;
  while (table.ok() && (*table)->Next(row).value_or(false)) {
    if (row.fault == RowFault::kNone && FirstHalfOfHash(row.id) == half) {
      return absl::StrCat("; first in ", (*table)->place());
    }
  }
  return "";  // The file has changed meanwhile.
}

}  // namespace splitveil
