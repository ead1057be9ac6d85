// memory.h: what the parts of the emulated runtime tell each other.
#pragma once

#include <functional>
#include <string>

#include "cuda_host.h"

namespace lathe::host {

// What memory bytes at an address are: of a buffer, of none (then the host's),
// or reaching over the end of one.
enum class Where { device, pinned, host, beyond };
Where whereabouts(const void *pointer, size_t bytes);

// While one lives, the memory of the device can be reached; elsewhere a
// dereference ends the process, if LATHE_HOST_CLOSED is set.
struct OpenMemory {
    OpenMemory();
    ~OpenMemory();
};

// What a kernel wrote beside a buffer, or nothing.
std::string memory_damage();
Live live_memory();

// Copies from memory that is not page-locked may be under way when cudaMemcpy
// returns. They arrive before the next work of the default stream and of those
// that wait for it; streams that do not wait see what was there before.
void copies_arrive();
// What streams take of the device's memory.
size_t bytes_of_streams();
// Whether the calling thread records a stream, and may not allocate, free or wait.
bool records();

// Runs work now, when what the stream still has to do is done, or records it while the stream
// is captured. Late work, which a copy between the device and page-locked memory is, runs as
// late as CUDA allows: when its stream is waited for, by the host or by another stream, or
// has other work. Who does not wait for it finds what was there before.
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work, bool late = false);
// Notes a code for cudaGetLastError and returns it; after a kernel's error, that.
cudaError_t returned(cudaError_t code);

} // namespace lathe::host
