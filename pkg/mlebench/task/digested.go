package task

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// What a public folder comes to is kept in a file, since every process that prompts, plays
// or scores opens the task, and some competitions have 100 GB. The file is beside the
// public folder, where all machines find it, or in the user's cache where that folder
// cannot be written to. It holds for as long as no file's name, size, time of change or
// number on the file system is another; a process that finds it torn, by another that is
// writing it, or out of date, reads the public files and writes it again.

// digestedFile is its name in the task's folder.
const digestedFile = ".lathe-public.json"

// digestedVersion changes with what a preview shows.
const digestedVersion = 3

// settled is how long ago the last change of a public file must be for what is read to be
// kept: one within the resolution of a file system's clock could go unnoticed.
const settled = 2 * time.Second

// worthKeeping is the size of a folder, in bytes, from which on it is not read each time.
const worthKeeping = 16 << 20

// maxDigestedFile bounds the file.
const maxDigestedFile = 16 << 20

// public is what the public folder comes to.
type public struct {
	Version int    `json:"version"`
	State   string `json:"state"`  // digest of the files' names, sizes, times and numbers
	SHA256  string `json:"sha256"` // of names, sizes and contents, as a run pins them
	Bytes   int64  `json:"bytes"`
	Preview string `json:"preview"`
	Check   string `json:"check"` // digest of all of the above
}

func (p public) sum() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q %d %q", p.Version, p.State, p.SHA256, p.Bytes, p.Preview))
	return hex.EncodeToString(sum[:])
}

// state is the digest of what the files of a folder look like from outside, and the time of
// the last change of one.
func state(files []publicFile) (digest string, changed time.Time) {
	sum := sha256.New()
	for _, f := range files {
		own := f.info.Sys().(*syscall.Stat_t)
		inode := time.Unix(own.Ctim.Sec, own.Ctim.Nsec) // of the entry: a time that no program sets
		fmt.Fprintf(sum, "%q %d %d %d %d\n", f.name, f.info.Size(), f.info.ModTime().UnixNano(), inode.UnixNano(), own.Ino)
		for _, at := range []time.Time{f.info.ModTime(), inode} {
			if at.After(changed) {
				changed = at
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), changed
}

// digestedPaths are where the file may be.
func (t *Task) digestedPaths() []string {
	paths := []string{filepath.Join(t.Folder, digestedFile)}
	if cache, err := os.UserCacheDir(); err == nil {
		sum := sha256.Sum256([]byte(t.PublicDir))
		paths = append(paths, filepath.Join(cache, "lathe", "public", hex.EncodeToString(sum[:16])+".json"))
	}
	return paths
}

// kept is what a file holds of the public folder in the given state.
func (t *Task) kept(state string) (p public, found bool) {
	for _, path := range t.digestedPaths() {
		content, err := plainfile.Read(path, maxDigestedFile)
		if err != nil || json.Unmarshal(content, &p) != nil {
			continue
		}
		if p.Version == digestedVersion && p.State == state && p.Check == p.sum() {
			return p, true
		}
	}
	return public{}, false
}

// keep writes what the public folder comes to. To fail costs the next process its time
// alone, so that is no error.
func (t *Task) keep(p public) {
	p.Version = digestedVersion
	p.Check = p.sum()
	content, err := plainjson.Line(p)
	if err != nil {
		return
	}
	for _, path := range t.digestedPaths() {
		if plainfile.Write(path, content) == nil {
			return
		}
	}
}

// publicFile is a file of the public folder.
type publicFile struct {
	name string // below the folder
	info fs.FileInfo
}
