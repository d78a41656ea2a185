// One function compiled for several instruction sets, the widest chosen when the program is loaded.
#ifndef SPLITVEIL_COMMON_MATRIX_VECTOR_VARIANTS_H_
#define SPLITVEIL_COMMON_MATRIX_VECTOR_VARIANTS_H_

// Put before a loop that passes over every gradient. The variants do the same additions and multiplications in the same
// order (the CMakeLists.txt of their folder keeps fused ones out), so that they give the same bits. Other compilers and
// processors have the baseline only, and so have the sanitizers, which cannot run before the loader has chosen.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SPLITVEIL_VECTOR_VARIANTS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SPLITVEIL_VECTOR_VARIANTS
#endif

#endif  // SPLITVEIL_COMMON_MATRIX_VECTOR_VARIANTS_H_
