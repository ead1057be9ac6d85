// Package seal makes files that are either whole or not there.
//
// A sealed file is a data file and, beside it, a manifest with its size and
// SHA-256: plan.parquet and plan.parquet.json. A sealed folder is a folder
// and a manifest that lists its files: policy/v000001 and policy/v000001.json.
// A file is done when its manifest is there and matches; nothing else means
// done. No other package renames, syncs or digests.
//
// # Writing
//
// [Create] opens .NAME.JOB_TASK.ATTEMPT.PID-N.tmp in the folder of NAME.
// [Writer.Commit] then
//
//  1. checks the byte count, fsyncs and closes the temporary file;
//  2. gives it its final name by link(2), which never replaces a file;
//  3. fsyncs the folder;
//  4. does the same with the manifest;
//  5. reads both back and returns once they agree.
//
// A process killed between any two steps leaves temporary files, or a data
// file without a manifest. Neither is done; the first kind is removed by
// [Sweep], the second is adopted (equal bytes) or replaced (other bytes) by
// the next attempt.
//
// Two writers of one name (a requeued twin, a zombie after a node failure)
// need no lock. Whoever links its manifest first has won; the other finds a
// manifest that matches, drops its own copy and returns the winner's manifest.
// A pair that agrees is never replaced. A pair that does not agree is given a
// moment, because its writer may be between steps, and is then replaced; of
// two writers that repair at once, the one whose manifest is in place restores
// its data and the other yields.
//
// A name that a person chose may be that of something else. A writer with
// Attempt.Guard therefore neither yields to other contents nor replaces what is
// not unfinished work of ours: it ends with a usage error, and [CheckOutput]
// says so before the work.
//
// # Reading
//
// [Open] digests the bytes it returns, so what is decoded is what was sealed.
// [Read] looks at the manifest and the size alone. Both answer with
// [ErrNotSealed] or [ErrDamaged].
//
// NFS clients cache failed lookups and attributes for up to a minute, so a
// file that another node has just sealed may look absent. Readers never ask
// whether a name exists: they open it (an open revalidates), list the folder
// (which revalidates the folder) and try again until Options.Visibility has
// passed, then say what the folder showed.
package seal
