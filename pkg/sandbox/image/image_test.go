package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// change changes a SIF file before it is written.
type change func(*sifHeader, []sifDescriptor)

// sif is a SIF file as Apptainer writes it: a definition, a partition, and free
// descriptors, and the data of both.
func sif(t must.TB, squash []byte, changed change) []byte {
	t.Helper()
	header := sifHeader{Descriptors: 4, DescriptorsFree: 2, DescriptorsOffset: 128, DescriptorsSize: 4 * 585, DataOffset: 4096}
	copy(header.Launch[:], "#!/usr/bin/env run-singularity\n")
	copy(header.Magic[:], sifMagic)
	copy(header.Version[:], sifVersion)
	descriptors := make([]sifDescriptor, 4)
	descriptors[0] = sifDescriptor{DataType: 0x4001, Used: true, Offset: 4096, Size: 8}
	descriptors[1] = sifDescriptor{DataType: sifPartition, Used: true, Offset: 8192, Size: int64(len(squash)), FileSystem: 1, Partition: sifPrimary}
	copy(descriptors[1].Arch[:], map[string]string{"amd64": "02", "arm64": "04"}[runtime.GOARCH])
	if changed != nil {
		changed(&header, descriptors)
	}
	var b bytes.Buffer
	must.Do(t, binary.Write(&b, binary.LittleEndian, header))
	must.Do(t, binary.Write(&b, binary.LittleEndian, descriptors))
	b.Write(make([]byte, 8192-b.Len()))
	b.Write(squash)
	return b.Bytes()
}

// TestFormat: the sizes are those of the format, and what cannot be a root is refused with
// its reason.
func TestFormat(t *testing.T) {
	t.Parallel()
	if h, d := binary.Size(sifHeader{}), binary.Size(sifDescriptor{}); h != 128 || d != 585 {
		t.Fatalf("a header of %d bytes and a descriptor of %d, want 128 and 585", h, d)
	}
	squash := []byte("hsqs and so on")
	for _, c := range []struct {
		what string
		file []byte
		want string // the section, or a part of the error
	}{
		{"a SquashFS", squash, "0 14"},
		{"a SIF", sif(t, squash, nil), "8192 14"},
		{"nothing", nil, "neither a SquashFS nor a SIF"},
		{"an archive", bytes.Repeat([]byte("\x1f\x8b"), 100), "neither a SquashFS nor a SIF"},
		{"cut in its header", sif(t, squash, nil)[:100], "neither a SquashFS nor a SIF"},
		{"cut in its descriptors", sif(t, squash, nil)[:800], "its descriptor 2"},
		{"cut in its system", sif(t, squash, nil)[:8200], "8200 bytes, whose system is 14 bytes from 8192"},
		{"no SquashFS within", sif(t, []byte("ext3 it seems"), nil), "no SquashFS"},
		{"a version to come", sif(t, squash, func(h *sifHeader, _ []sifDescriptor) { h.Version[1] = '2' }), `version "02"`},
		{"encrypted", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) { d[1].FileSystem = 5 }), "encrypted"},
		{"ext3", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) { d[1].FileSystem = 2 }), "ext3"},
		{"a file system to come", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) { d[1].FileSystem = 9 }), "file system 9"},
		{"another machine's", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) {
			copy(d[1].Arch[:], map[string]string{"amd64": "04", "arm64": "02"}[runtime.GOARCH])
		}), "for a"},
		{"an overlay alone", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) { d[1].Partition = 4 }), "without a partition"},
		{"a deleted system", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) { d[1].Used = false }), "without a partition"},
		{"descriptors without number", sif(t, squash, func(h *sifHeader, _ []sifDescriptor) { h.Descriptors = math.MaxInt64 }), "descriptors"},
		{"descriptors before the file", sif(t, squash, func(h *sifHeader, _ []sifDescriptor) { h.DescriptorsOffset = -600 }), "its descriptor 1"},
		{"a system beyond the file", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) { d[1].Offset = math.MaxInt64 - 3 }), "whose system is"},
		{"a system before it", sif(t, squash, func(_ *sifHeader, d []sifDescriptor) { d[1].Offset = -1 }), "whose system is"},
	} {
		s, err := squashFS(bytes.NewReader(c.file), int64(len(c.file)))
		if got := fmt.Sprint(s.offset, " ", s.size, " ", err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// FuzzFormat: no file makes the reader fail, and what it finds is in the file.
func FuzzFormat(f *testing.F) {
	f.Add(sif(f, []byte("hsqs"), nil))
	f.Add([]byte("hsqs"))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := squashFS(bytes.NewReader(file), int64(len(file)))
		if err == nil && (s.offset < 0 || s.size < 4 || s.offset+s.size > int64(len(file)) || string(file[s.offset:s.offset+4]) != "hsqs") {
			t.Errorf("the file system is %+v of %d bytes", s, len(file))
		}
	})
}

// TestSections: wherever a SIF file has its system, it is found there.
func TestSections(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		before, squash := rapid.IntRange(0, 3000).Draw(r, "before"), append([]byte("hsqs"), rapid.SliceOf(rapid.Byte()).Draw(r, "squash")...)
		file := sif(r, append(make([]byte, before), squash...), func(_ *sifHeader, d []sifDescriptor) {
			d[1].Offset, d[1].Size = int64(8192+before), int64(len(squash))
		})
		if s, err := squashFS(bytes.NewReader(file), int64(len(file))); err != nil || s != (section{int64(8192 + before), int64(len(squash))}) {
			r.Fatalf("%+v, %v", s, err)
		}
	})
}

// squashed is a SquashFS file of a folder with usr/bin/a, a link and a file that only its
// owner reads.
func squashed(t *testing.T) []byte {
	t.Helper()
	mksquashfs, ok := program("mksquashfs")
	if _, un := program("unsquashfs"); !ok || !un {
		t.Skip("there is no mksquashfs: install squashfs-tools")
	}
	root, file := t.TempDir(), filepath.Join(t.TempDir(), "x.sqfs")
	must.Do(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, "usr/bin/a"), []byte("program"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, "own"), nil, 0o600))
	must.Do(t, os.Symlink("usr/bin", filepath.Join(root, "bin")))
	if out, err := exec.CommandContext(t.Context(), mksquashfs, root, file, "-quiet", "-no-progress").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return must.Get(os.ReadFile(file))(t)
}

// TestOpen: a folder is its own root, and a file is unpacked once, by all who open it at
// the same time and after one that was killed; the same system in another file is not
// unpacked again.
func TestOpen(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	squash := squashed(t)
	folder := t.TempDir()
	files := map[string][]byte{"a.sqfs": squash, "a.sif": sif(t, squash, nil), "bad.tar": []byte("ustar"), "cut.sqfs": squash[:200]}
	for name, content := range files {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	roots := make([]string, 8)
	var all sync.WaitGroup
	for i := range roots {
		all.Go(func() {
			roots[i] = must.Get(Open(t.Context(), filepath.Join(folder, []string{"a.sqfs", "a.sif"}[i%2])))(t)
		})
	}
	all.Wait()
	// mksquashfs fills its file up to 4096 bytes, and both hold the same.
	for _, root := range roots {
		if root != roots[0] || filepath.Dir(root) != filepath.Join(cache, "lathe", "images") {
			t.Errorf("the roots are %q", roots)
		}
	}
	if text, err := os.ReadFile(filepath.Join(roots[0], "bin/a")); err != nil || string(text) != "program" {
		t.Errorf("it holds %q, %v", text, err)
	}
	// A mark that is missing is that of a process that was killed.
	must.Do(t, os.Remove(filepath.Join(roots[0], "usr/bin/a")))
	must.Do(t, os.Remove(roots[0]+".done"))
	again := must.Get(Open(t.Context(), filepath.Join(folder, "a.sif")))(t)
	if _, err := os.Stat(filepath.Join(again, "usr/bin/a")); again != roots[0] || err != nil {
		t.Errorf("unpacked again into %q: %v", again, err)
	}
	if root := must.Get(Open(t.Context(), again))(t); root != again {
		t.Errorf("the root of a folder is %q, want %q", root, again)
	}
	for name, want := range map[string]struct {
		code int
		says string
	}{
		"bad.tar":  {exitcode.Data, "neither a SquashFS nor a SIF file"},
		"cut.sqfs": {exitcode.Unavailable, "unsquashfs"},
		"nowhere":  {exitcode.Unavailable, "no image on this machine"},
		".":        {exitcode.Data, "the root of no system"},
	} {
		if _, err := Open(t.Context(), filepath.Join(folder, name)); exitcode.Code(err) != want.code || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v, want code %d and %q", name, err, want.code, want.says)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "lathe/images/*.done")); len(left) != 1 {
		t.Errorf("what was unpacked: %q", left)
	}
}

// TestApptainer: where there is no unsquashfs Apptainer unpacks, by a program in its place.
func TestApptainer(t *testing.T) {
	t.Parallel()
	bin, root := t.TempDir(), filepath.Join(t.TempDir(), "root")
	must.Do(t, os.WriteFile(filepath.Join(bin, "apptainer"), []byte("#!/bin/sh\necho \"$@\"\n[ \"$4\" != /bad.sif ] || { echo no such image >&2; exit 255; }\n"), 0o755))
	tools := func(names ...string) (string, bool) {
		if names[0] == "unsquashfs" {
			return "", false
		}
		return filepath.Join(bin, names[0]), true
	}
	c := cached{image: "/a.sif", find: tools}
	must.Do(t, c.unpack(t.Context(), root))
	c.image = "/bad.sif"
	if err := c.unpack(t.Context(), root); exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "no such image") {
		t.Errorf("a failure is %v", err)
	}
	c.find = func(...string) (string, bool) { return "", false }
	if err := c.unpack(t.Context(), root); exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "neither unsquashfs nor apptainer") {
		t.Errorf("without either: %v", err)
	}
}
