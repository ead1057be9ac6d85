// access.h: what the emulated machine tells the instrument of access.cpp. In
// all builds but that of `make access` these functions do nothing.
#pragma once

#include <stddef.h>
#include <stdio.h>

#include <string>

#include "cuda_host.h"

namespace lathe::host {

#if defined(LATHE_ACCESS)

// Names what the launches from now on are of.
void access_case(const std::string &name);
// What the requests so far have taken, and what would have been ideal.
struct AccessCounts {
    uint64_t wavefronts, ideal_wavefronts, sectors, ideal_sectors;
};
AccessCounts access_take(); // and forgets them
// Prints the table of all cases.
void access_report(FILE *to);

void access_launch(const Launch &launch); // blocks of it run next
void access_block(size_t threads);        // a block begins
// All lanes of a warp, or all threads of the block, have come to one place.
void access_converged(int warp);
void access_converged();
// The running thread accesses shared or global memory by an instruction that is
// known by the address to which the emulated function returns.
void access_note(const void *instruction, const void *at, size_t bytes);
// A box is copied, of so many bytes of each of its rows that exist.
void access_box(const void *instruction, const char *from, size_t bytes, size_t rows, size_t row_bytes, size_t shared_bytes);

#else

inline void access_launch(const Launch &) {}
inline void access_block(size_t) {}
inline void access_converged(int) {}
inline void access_converged() {}
inline void access_note(const void *, const void *, size_t) {}
inline void access_box(const void *, const char *, size_t, size_t, size_t, size_t) {}

#endif

} // namespace lathe::host
