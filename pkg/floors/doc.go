// Package floors holds the tests that keep the house in shape: which package
// may import which, which packages may touch the file system's rename, and
// how long a file may be. It has no code of its own.
package floors
