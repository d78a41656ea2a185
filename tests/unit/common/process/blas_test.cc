#include "common/process/blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"

#include "common/process/runtime.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::ExitedWithCode;

constexpr char kReference[] = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3";
constexpr char kOpenBlas[] = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";

bool Load(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr; }

TEST(IsReferenceBlasTest, IsTrueOfNetlibsLibraryWhereverItLies) {
  EXPECT_TRUE(IsReferenceBlas("/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0"));
  EXPECT_TRUE(IsReferenceBlas("/usr/lib64/libblas.so.3"));
  EXPECT_TRUE(IsReferenceBlas("libblas.so.3"));
}

TEST(IsReferenceBlasTest, IsFalseOfOptimisedLibraries) {
  EXPECT_FALSE(IsReferenceBlas("/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3"));
  EXPECT_FALSE(IsReferenceBlas("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so"));
  EXPECT_FALSE(IsReferenceBlas("/usr/lib/x86_64-linux-gnu/blis-openmp/libblas.so.3"));
  EXPECT_FALSE(IsReferenceBlas("/usr/lib/x86_64-linux-gnu/atlas/libblas.so.3.10.3"));
  EXPECT_FALSE(IsReferenceBlas("/opt/intel/oneapi/mkl/latest/lib/libmkl_rt.so.2"));
  EXPECT_FALSE(IsReferenceBlas("/opt/libtorch/lib/libtorch_cpu.so"));
}

TEST(IsReferenceBlasTest, IsFalseWhereNoneIsLoaded) { EXPECT_FALSE(IsReferenceBlas("")); }

TEST(LoadedBlasPathTest, IsEmptyWhereNoneIsLoaded) { EXPECT_EQ(LoadedBlasPath(), ""); }

TEST(SetBlasThreadsTest, FailsWhereNoOpenBlasIsLoaded) { EXPECT_FALSE(SetBlasThreads(2)); }

TEST(WarnIfSlowBlasTest, IsSilentWhereNoBlasIsLoaded) {
  EXPECT_EXIT(
      {
        WarnIfSlowBlas();
        _exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST(WarnIfSlowBlasTest, WarnsOfTheReferenceBlasBehindALink) {
  if (!std::filesystem::exists(kReference)) {
    GTEST_SKIP() << kReference << " is not installed";
  }
  // As Debian's alternatives have it: the name the program loads is a link to a link.
  testing::TempFolder folder;
  std::filesystem::create_symlink(kReference, folder.File("chosen"));
  std::filesystem::create_symlink(folder.File("chosen"), folder.File("libblas.so.3"));
  EXPECT_EXIT(
      {
        if (!Load(folder.File("libblas.so.3"))) {
          _exit(1);
        }
        WarnIfSlowBlas();
        _exit(0);
      },
      ExitedWithCode(0), "WARNING SLOW: .*blas/libblas.so.3.*libopenblas0-pthread");
}

TEST(WarnIfSlowBlasTest, IsSilentOnOpenBlasBehindANeutralName) {
  if (!std::filesystem::exists(kOpenBlas)) {
    GTEST_SKIP() << kOpenBlas << " is not installed";
  }
  testing::TempFolder folder;
  std::filesystem::create_symlink(kOpenBlas, folder.File("libblas.so.3"));
  EXPECT_EXIT(
      {
        if (!Load(folder.File("libblas.so.3"))) {
          _exit(1);
        }
        WarnIfSlowBlas();
        _exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST(SetBlasThreadsTest, ReachesOpenBlasAndRefusesLessThanOne) {
  if (!std::filesystem::exists(kOpenBlas)) {
    GTEST_SKIP() << kOpenBlas << " is not installed";
  }
  EXPECT_EXIT(
      {
        if (!Load(kOpenBlas)) {
          _exit(1);
        }
        const auto threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
        const bool raised = SetBlasThreads(2) && threads() == 2;
        const bool kept = !SetBlasThreads(0) && threads() == 2;
        _exit(raised && kept ? 0 : 2);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace splitveil
