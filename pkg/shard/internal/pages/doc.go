// Package pages reads the pages of Parquet files that other programs have written:
// the footer, and of each column its levels and the bytes of its values, one by one.
//
// The decoders of parquet-go pad what a damaged page lacks, decode LZ4_RAW into
// bytes that the page does not have, and allocate what a page claims. Here every
// page is checked against the sizes and counts that its header states, nothing is
// allocated on the word of a header alone, and no byte is made up: a page either
// gives all of its values or an error.
package pages
