// Any bytes as a wire tensor: no crash, and what is decoded has the expected shape, is finite and encodes back to the
// same bytes. The first three bytes choose what is expected.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

void Require(bool holds, const char* property) {
  if (!holds) {
    std::cerr << "broken property: " << property << "\n";
    std::abort();
  }
}

void CheckTensor(const v1::Tensor& tensor, const TensorExpectation& expected) {
  const absl::StatusOr<Matrix> decoded = DecodeMatrix(tensor, expected);
  if (!decoded.ok()) {
    Require(decoded.status().code() == absl::StatusCode::kInvalidArgument, "the code of an error");
    Require(decoded.status().message().substr(0, expected.field.size()) == expected.field, "an error names the field");
    return;
  }
  Require(tensor.dtype() == expected.dtype && tensor.shape_size() == 2, "the layout of what is accepted");
  Require(decoded->rows() == expected.rows && decoded->cols() == expected.cols, "the shape of what is decoded");
  for (int64_t i = 0; i < decoded->size(); ++i) {
    Require(std::isfinite(decoded->data()[i]), "what is decoded is finite");
  }
  v1::Tensor again;
  Require(EncodeMatrix(*decoded, expected.dtype, again).ok(), "what is decoded can be encoded");
  Require(again.data() == tensor.data(), "encoding gives back the bytes");
}

}  // namespace
}  // namespace splitveil

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) {
    return 0;
  }
  const splitveil::TensorExpectation expected = {"tensor", static_cast<splitveil::v1::DataType>(data[0] % 5),
                                                 data[1] % 32, data[2] % 32};
  splitveil::v1::Tensor tensor;
  if (tensor.ParseFromArray(data + 3, static_cast<int>(size - 3))) {
    splitveil::CheckTensor(tensor, expected);
  }
  return 0;
}
