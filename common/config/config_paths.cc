#include "common/config/config_paths.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "splitveil/v1/options.pb.h"

namespace splitveil {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Calls `visit` on every path below `message`; what it makes of ConfigPath::path is written back.
void VisitPaths(Message& message, const std::string& prefix, absl::FunctionRef<void(ConfigPath&)> visit) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const FieldDescriptor* const field : set) {
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && !field->options().GetExtension(v1::path)) {
      continue;
    }
    for (int i = 0; i < (field->is_repeated() ? reflection.FieldSize(message, field) : 1); ++i) {
      const std::string name =
          absl::StrCat(prefix, field->name(), field->is_repeated() ? absl::StrCat("[", i, "]") : "");
      if (is_message) {
        VisitPaths(*(field->is_repeated() ? reflection.MutableRepeatedMessage(&message, field, i)
                                          : reflection.MutableMessage(&message, field)),
                   name + ".", visit);
        continue;
      }
      ConfigPath path = {field, name,
                         field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                              : reflection.GetString(message, field)};
      if (path.path.empty()) {
        continue;  // Empty means "none", which the folder of a configuration must not replace.
      }
      visit(path);
      if (field->is_repeated()) {
        reflection.SetRepeatedString(&message, field, i, std::move(path.path));
      } else {
        reflection.SetString(&message, field, std::move(path.path));
      }
    }
  }
}

}  // namespace

std::vector<ConfigPath> ListPaths(const Message& message) {
  // One walk serves both reading and writing; a configuration is small enough to copy.
  const std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  std::vector<ConfigPath> paths;
  VisitPaths(*copy, "", [&](ConfigPath& path) { paths.push_back(path); });
  return paths;
}

bool IsOwnerOnly(const ConfigPath& path) { return path.field->options().GetExtension(v1::owner_only); }

void ResolvePaths(absl::string_view config_path, Message& message) {
  const std::filesystem::path folder = std::filesystem::path(std::string(config_path)).parent_path();
  // Joining with an absolute path gives that path.
  VisitPaths(message, "", [&](ConfigPath& path) { path.path = (folder / path.path).string(); });
}

void MakePathsAbsolute(Message& message) {
  VisitPaths(message, "", [](ConfigPath& path) { path.path = AbsolutePath(path.path); });
}

std::string AbsolutePath(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace splitveil
