// Package pages reads the pages of Parquet files that other programs wrote: the footer,
// and the levels and values of each column, one by one.
//
// The decoders of parquet-go pad truncated pages, decode LZ4_RAW pages into bytes that are
// not there, and allocate whatever a header claims. This package checks every page against
// the sizes and counts of its header and allocates only what the data can fill. A page
// gives all of its values or an error.
package pages
