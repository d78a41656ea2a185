#include "label_party/serving/request_tensors.h"

#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using inference::ModelInferRequest;

// The elements of a raw tensor of type BYTES: each after its length, 4 bytes, little-endian. Those beyond `most` by
// more than one are not looked at: an element without content has four bytes there, and four times as many here.
absl::StatusOr<std::vector<absl::string_view>> SplitRaw(absl::string_view raw, int64_t most) {
  std::vector<absl::string_view> elements;
  while (!raw.empty() && static_cast<int64_t>(elements.size()) <= most) {
    uint32_t size = 0;
    if (raw.size() >= sizeof(size)) {
      std::memcpy(&size, raw.data(), sizeof(size));
      raw.remove_prefix(sizeof(size));
    }
    if (size > raw.size() || (size == 0 && raw.size() < sizeof(size) && !raw.empty())) {
      return absl::InvalidArgumentError(
          "raw_input_contents: an element and its length do not fit: write each element "
          "after its length, 4 bytes, little-endian");
    }
    elements.push_back(raw.substr(0, size));
    raw.remove_prefix(size);
  }
  return elements;
}

template <typename Number>
absl::StatusOr<std::vector<double>> NumbersOf(absl::string_view raw) {
  if (raw.size() % sizeof(Number) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("raw_input_contents: expected whole numbers of ", sizeof(Number),
                                                   " bytes each, little-endian, found ", raw.size(), " bytes"));
  }
  std::vector<double> numbers(raw.size() / sizeof(Number));
  for (size_t i = 0; i < numbers.size(); ++i) {
    Number number = 0;
    std::memcpy(&number, raw.data() + i * sizeof(Number), sizeof(Number));
    numbers[i] = number;
  }
  return numbers;
}

bool HasContents(const inference::InferTensorContents& contents) {
  return contents.bytes_contents_size() + contents.fp32_contents_size() + contents.fp64_contents_size() > 0;
}

// Input number `i`, whose shape is not looked at.
absl::StatusOr<RequestColumn> ReadInput(const ModelInferRequest& request, int i, int64_t most) {
  const ModelInferRequest::InferInputTensor& input = request.inputs(i);
  const inference::InferTensorContents& contents = input.contents();
  const bool is_raw = request.raw_input_contents_size() > 0;
  RequestColumn column = {input.name(), input.datatype() != "BYTES", {}, {}};
  if (!column.is_number && is_raw) {
    SPLITVEIL_ASSIGN_OR_RETURN(column.values, SplitRaw(request.raw_input_contents(i), most));
  } else if (!column.is_number) {
    column.values.assign(contents.bytes_contents().begin(), contents.bytes_contents().end());
  } else if (input.datatype() == "FP32" && !is_raw) {
    column.numbers.assign(contents.fp32_contents().begin(), contents.fp32_contents().end());
  } else if (input.datatype() == "FP64" && !is_raw) {
    column.numbers.assign(contents.fp64_contents().begin(), contents.fp64_contents().end());
  } else if (input.datatype() == "FP32" || input.datatype() == "FP64") {
    const absl::string_view raw = request.raw_input_contents(i);
    SPLITVEIL_ASSIGN_OR_RETURN(column.numbers,
                               input.datatype() == "FP32" ? NumbersOf<float>(raw) : NumbersOf<double>(raw));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs[", i, "]: expected datatype \"BYTES\", or of numbers \"FP64\" or \"FP32\""));
  }
  for (const double number : column.numbers) {
    if (std::isinf(number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("inputs[", i, "]: a number is infinite: where one is missing, give NaN, in JSON null"));
    }
  }
  return column;
}

// [n, 1] is how clients that think of tables say [n].
bool HasShape(const ModelInferRequest::InferInputTensor& input, size_t n) {
  return (input.shape_size() == 1 || (input.shape_size() == 2 && input.shape(1) == 1)) &&
         input.shape(0) == static_cast<int64_t>(n);
}

}  // namespace

absl::StatusOr<RequestTensors> ReadTensors(const ModelInferRequest& request, int64_t most) {
  RequestTensors tensors;
  std::set<absl::string_view> names;
  const bool is_raw = request.raw_input_contents_size() > 0;
  int id = -1;
  for (int i = 0; i < request.inputs_size(); ++i) {
    if (!names.insert(request.inputs(i).name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("inputs[", i, "]: its name is there twice: give each input once"));
    }
    if (is_raw &&
        (request.raw_input_contents_size() != request.inputs_size() || HasContents(request.inputs(i).contents()))) {
      return absl::InvalidArgumentError("raw_input_contents: give one for each input, and no contents beside them");
    }
    id = request.inputs(i).name() == "id" ? i : id;
  }
  if (id < 0 || request.inputs(id).datatype() != "BYTES") {
    return absl::InvalidArgumentError("inputs: id: give the ids as input \"id\" of datatype \"BYTES\"");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(RequestColumn ids, ReadInput(request, id, most));
  tensors.ids = std::move(ids.values);
  for (int i = 0; i < request.inputs_size(); ++i) {
    // What was found instead is the client's own, and may be as long as the message.
    if (!HasShape(request.inputs(i), tensors.ids.size())) {
      return absl::InvalidArgumentError(absl::StrCat("inputs[", i, "]: this request has ", tensors.ids.size(),
                                                     " ids: give shape [", tensors.ids.size(), "]"));
    }
    if (i != id) {
      SPLITVEIL_ASSIGN_OR_RETURN(RequestColumn column, ReadInput(request, i, most));
      if (column.numbers.size() + column.values.size() != tensors.ids.size()) {
        return absl::InvalidArgumentError(absl::StrCat("inputs[", i, "]: expected a value for each of the ",
                                                       tensors.ids.size(), " ids, found ",
                                                       column.numbers.size() + column.values.size()));
      }
      tensors.columns.push_back(std::move(column));
    }
  }
  return tensors;
}

}  // namespace splitveil
