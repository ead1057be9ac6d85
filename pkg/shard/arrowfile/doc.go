// Package arrowfile keeps batches of sequences and gradients in sealed Arrow IPC
// files, uncompressed, for what the learner loads: [WriteBatch], [WriteTensors].
// It is apart from the tables of package shard, so that a program that needs
// those alone does not link Arrow.
//
// Every reader digests first and decodes after, because the format does not
// notice all damage, and decoders of damaged files panic or ask for terabytes.
//
// Equal sequences and equal tensors give equal bytes, on any machine and in any
// process. A file's schema is compared with the expected fields before a record
// is read: any difference is one error that lists every column that differs.
// Columns that were not asked for are ignored.
package arrowfile
