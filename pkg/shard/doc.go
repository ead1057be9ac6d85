// Package shard keeps typed rows in sealed files.
//
// Tables are Parquet, zstd, for whatever people query: [Write] and [Read].
// What the learner loads is in Arrow files: package arrowfile. Every reader
// digests first and decodes after, because neither format notices all damage,
// and decoders of damaged files panic or ask for terabytes.
//
// Equal rows give equal bytes, on any machine and in any process: one order
// of columns, fixed row groups, no time and no version in the file.
//
// A table's schema is compared with the row type before a row is read. The
// decoder would silently fill a missing column with zeros and truncate a
// narrowed one, so any difference is one error that lists every column that
// differs. Columns that the row type does not have are ignored.
package shard
