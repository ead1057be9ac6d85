// Package sandbox runs programs that nobody has read in a sandbox that an ordinary
// user can build: no network, no file but those that are granted, no process but
// their own, bounded time, memory, disk, output and files, and nothing left
// afterwards.
//
// Processes of this binary ([Enter]) do it. A supervisor, one for all programs of a
// process, adopts whatever they leave behind, keeps the limits that kernels do not,
// and ends all: a program stays in one process group, which is killed at once. It
// may make no session of its own, as daemons do. The sandbox makes namespaces (user,
// mount, PID, IPC, network, UTS) where the kernel lets this user, sets resource
// limits, gives up capabilities and the right to gain them, restricts itself by
// Landlock and by seccomp filters, and becomes the program. What a kernel does not
// have is left out and said ([Protection]); who needs it refuses to run
// ([Program].Require).
//
// Bubblewrap, Apptainer and setuid helpers are not used: what they do as an ordinary
// user takes the same namespaces.
//
// A [Warm] interpreter has imported modules once, and forks a process for each
// program, which is sandboxed by the same plan before any of the program's code runs.
//
// A program may have a root of its own ([Program].Root), such as an unpacked image: it is
// shown in the place of the system's own files, read-only, but for /proc, /sys, /dev and
// /tmp. Of the host it then sees the list of users, and the driver's libraries where it
// is granted GPUs.
//
// With namespaces there is a file system of the system's own files, read-only, and
// of those that are granted, /dev/shm is shared memory of its own, and /tmp is the
// folder that TMPDIR names if the program may write there and nothing granted is in
// /tmp. Where the path of that folder is too long for the names of sockets in it, TMPDIR
// names it by a short one. With a network namespace too, UNIX sockets of streams connect the program's own
// processes; the sockets that servers have in granted folders are hidden as the program
// starts, and one that is made there later is not. Without them these stay
// open, and [Paths] and [Processes] say so: a program sees whether a file outside
// is there, its size and its times (stat), and which process ids are in use.
//
// Programs of 32 bits do not run, and neither do calls that kernels got after those
// that we know: they fail as on a kernel that does not have them.
//
// In any case these stay open. A program may lock files that it is granted to read.
// Pipes and sockets count as the memory that they can hold, 64 KB and, by Linux's
// default, 208 KB; without a network of its own those that wait in other sockets, sent
// and closed, are not seen, and are as many as descriptors of one process, 1024. Memory
// that is held for less than a look is not seen. What a program of a [Warm] interpreter
// of an ordinary user writes in /dev/shm is not seen, and is as much as its memory may
// be. All three are where a control group was delegated to this user. The processes of
// root, whom no resource limit binds, are bounded by the supervisor's looks where there
// is neither a control group of their number nor a kernel of version 6.14, which has ids
// for each namespace. GPUs are granted by their device files; nobody has tried a real one
// yet (lathe doctor does, where there is one), and system calls that CUDA makes may be
// among those that are refused.
package sandbox
