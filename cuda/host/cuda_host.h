// cuda_host.h: what the CUDA sources use of the CUDA language and runtime, on
// the CPU. A test instrument, no product backend: it is built to find mistakes,
// not to be fast.
//
//   - A thread of a block is a fiber; blocks run one after the other. Barriers,
//     warp functions and tensor core instructions are what they are on a GPU:
//     exchanges among threads. Threads that wait at different places, or for
//     threads that have left, are an error.
//   - The order in which threads and blocks run is chosen by LATHE_HOST_ORDER:
//     ascending (the default), descending, or a number that seeds a shuffle.
//     A kernel that lacks a barrier gives other results in another order.
//   - Memory that was not written holds NaN (as integers: very large numbers).
//     Device buffers lie between guard pages, with the bytes up to them checked
//     after each launch. Pointers given to kernels and copies must be of the
//     right kind of memory.
//   - Launches and copies run at once, except while a stream is captured: then
//     they are recorded and run when the graph is launched. But cudaMemcpy of the
//     host's pageable memory may be under way when it returns, and streams that
//     do not wait for the default one run before it.
//   - A thread that records a stream may not allocate, free or wait.
//
// An error of a kernel is printed and makes every later call fail with
// cudaErrorLaunchFailure, as a broken context does on a GPU.
//
// Environment: LATHE_HOST_DEVICES=0 (no device), none (no driver) or the number
// of an error with which looking for devices fails; LATHE_HOST_MEMORY=bytes, of
// the device (default 16 GiB). With LATHE_HOST_CLOSED the device's memory cannot
// be reached but by kernels and copies: host code that dereferences a device
// pointer ends with a segmentation fault.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

#include "device_host.h"
#include "runtime_host.h"
