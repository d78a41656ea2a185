// A trained model half as files that Python reads.
#ifndef SPLITVEIL_COMMON_MODEL_EXPORT_H_
#define SPLITVEIL_COMMON_MODEL_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/model/half_script.h"
#include "common/model/torchscript_module.h"

namespace splitveil {

// Where a half goes: FOLDER/PARTY.pt (TorchScript, in eval mode, for torch.jit.load and, as a half to train on, for
// ModelSpec.torchscript_path) and FOLDER/PARTY.state_dict.pt (name -> tensor, for torch.load). They appear complete,
// replacing earlier ones, or not at all (PendingFile::Publish).
struct ExportTarget {
  std::string folder;
  std::string party;  // "label_party" or "nonlabel_party".
};

// Makes the folder if it does not exist and tries to write to it, so that a run does not find out at its end.
// InvalidArgument if it cannot.
absl::Status PrepareExport(const ExportTarget& target);

// A half of ours. forward returns `result`, a variable or expression of `script`. Errors: InvalidArgument if the
// files cannot be made, Internal if they cannot be written or from LibTorch.
absl::Status ExportHalf(const HalfScript& script, const std::string& result, const ExportTarget& target);

// Writes a trained TorchScript module as it is. Errors: see ExportHalf.
absl::Status ExportModule(const TorchScriptModule& module, const ExportTarget& target);
// The same within a script that calls the module as self.module.forward(...). Errors: see ExportHalf.
absl::Status ExportModuleWithin(const HalfScript& script, const std::string& result, const TorchScriptModule& module,
                                const ExportTarget& target);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_EXPORT_H_
