// For programs that make LibTorch give up on files: it then leaves some of its memory behind, which is not ours to
// mend.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(*-reserved-identifier,*-identifier-naming)
  return "leak:libtorch_cpu\n";
}
