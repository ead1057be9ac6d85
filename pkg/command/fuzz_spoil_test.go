package command_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// fuzzNumber is a number of the environment, or what it is by default.
func fuzzNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// spoiling puts something in the place of a path that is free.
type spoiling func(path string, random *rand.Rand) error

// spoilings are what is no sealed file of any run.
var spoilings = []struct {
	kind string
	put  spoiling
}{
	{"a link to nothing", func(path string, _ *rand.Rand) error { return os.Symlink("/nonexistent", path) }},
	{"a link to itself", func(path string, _ *rand.Rand) error { return os.Symlink(path, path) }},
	{"a link to a device", func(path string, _ *rand.Rand) error { return os.Symlink("/dev/zero", path) }},
	{"a pipe", func(path string, _ *rand.Rand) error { return syscall.Mkfifo(path, 0o640) }},
	{"an empty folder", func(path string, _ *rand.Rand) error { return os.Mkdir(path, 0o750) }},
	{"a sparse giant", func(path string, random *rand.Rand) error {
		return errors.Join(os.WriteFile(path, nil, 0o640), os.Truncate(path, 4<<(30+random.IntN(11))))
	}},
	{"foreign Parquet", func(path string, _ *rand.Rand) error {
		content, err := shard.Encode([]shard.TaskRow{{TaskID: "x"}}, map[string]string{"made": "elsewhere"})
		return errors.Join(err, os.WriteFile(path, content, 0o640))
	}},
	{"noise", func(path string, random *rand.Rand) error {
		noise := make([]byte, random.IntN(4096))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		return os.WriteFile(path, append([]byte("PAR1"), append(noise, "PAR1"...)...), 0o640)
	}},
}

// Names that differ in nothing but these are those of other iterations and shards.
var otherNames = map[string]*regexp.Regexp{
	"iteration": regexp.MustCompile(`\d{6}`),
	"shard":     regexp.MustCompile(`\b\d{5}\b`),
}

// choose makes a case up.
func (f *fuzz) choose(random *rand.Rand) fuzzCase {
	c := fuzzCase{random: random}
	for c.spoil == nil {
		c.base = f.sealed[random.IntN(len(f.sealed))]
		switch kind := random.IntN(4 + len(spoilings)); kind {
		case 0:
			other := []string{"seed", "recipe"}[random.IntN(2)]
			f.whole(&c, "another "+other, filepath.Join(f.siblings[other], c.base))
		case 1:
			other := []string{"iteration", "shard"}[random.IntN(2)]
			var names []string
			for _, name := range f.sealed {
				if hide := otherNames[other]; name != c.base && hide.ReplaceAllString(name, "") == hide.ReplaceAllString(c.base, "") {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				f.whole(&c, "another "+other, filepath.Join(f.own, names[random.IntN(len(names))]))
			}
		case 2, 3:
			other := []string{"seed", "recipe"}[random.IntN(2)]
			f.aim(&c)
			from := filepath.Join(f.siblings[other], c.victim)
			if _, err := os.Stat(from); err != nil {
				continue // logs and reports have other names
			}
			c.kind, c.spoil = "one file of another "+other, instead(c.victim, func(path string) error { return copySealed(from, path) })
			if kind == 3 {
				c.kind, c.spoil = "a link to another "+other, instead(c.victim, func(path string) error { return os.Symlink(from, path) })
			}
		default:
			f.aim(&c)
			s := spoilings[kind-4]
			c.kind, c.spoil = s.kind, instead(c.victim, func(path string) error { return s.put(path, random) })
		}
	}
	if f.seen[c.kind] == nil {
		f.seen[c.kind] = &fuzzed{codes: map[int]int{}}
	}
	f.seen[c.kind].cases++
	return c
}

// whole replaces what is sealed, and its manifest.
func (f *fuzz) whole(c *fuzzCase, kind, from string) {
	if _, err := os.Stat(from); err != nil {
		return
	}
	c.kind, c.victim = kind, c.base
	c.spoil = func(dir string) error {
		to := filepath.Join(dir, c.base)
		if err := errors.Join(os.RemoveAll(to), os.RemoveAll(seal.ManifestPath(to))); err != nil {
			return err
		}
		return errors.Join(copySealed(from, to), copySealed(seal.ManifestPath(from), seal.ManifestPath(to)))
	}
}

// aim chooses one file: what is sealed, its manifest, a file of it when it is a
// folder, or, seldom, one that nothing seals.
func (f *fuzz) aim(c *fuzzCase) {
	c.victim = c.base
	inside, err := os.ReadDir(filepath.Join(f.own, c.base))
	switch n := c.random.IntN(10); {
	case n == 0:
		c.base, c.victim = "", f.loose[c.random.IntN(len(f.loose))]
	case n < 4:
		c.victim = seal.ManifestPath(c.base)
	case n < 8 && err == nil:
		c.victim = filepath.Join(c.base, inside[c.random.IntN(len(inside))].Name())
	}
}

// instead puts something in the place of a file of a run.
func instead(victim string, put func(path string) error) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, victim)
		if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o750)); err != nil {
			return err
		}
		if err := put(path); err != nil {
			return fmt.Errorf("spoiling %q: %w", victim, err)
		}
		return nil
	}
}

// copySealed copies a file or folder to a free path.
func copySealed(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.WriteFile(to, content, 0o640))
}
