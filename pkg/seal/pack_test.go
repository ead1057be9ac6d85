package seal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// Shards of five digits are packed by thousands, and nothing else.
func TestPackOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"00000.parquet": "00000-00999.parquet", "00999.parquet": "00000-00999.parquet", "01000.parquet": "01000-01999.parquet", "99999.parquet": "99000-99999.parquet",
		"0000.parquet": "", "plan.parquet": "", "-0001.parquet": "", "00001.arrow": "", "00000-00999.parquet": "",
	} {
		pack, ok := PackOf(filepath.Join("a", name))
		if ok != (want != "") || ok && (pack != filepath.Join("a", want) || !IsPack(pack)) || IsPack(filepath.Join("a", name)) != (name == "00000-00999.parquet") {
			t.Errorf("%s: %q, %t", name, pack, ok)
		}
	}
	if IsPack("00001-01000.parquet") {
		t.Error("a pack that begins in the middle")
	}
}

// Members lie one behind the other, by their names, inside the file.
func TestCheckMembers(t *testing.T) {
	t.Parallel()
	first, second := Member{"a", 0, 4, 2}, Member{"b", 6, 0, 3}
	for name, c := range map[string]struct {
		members []Member
		bytes   int64
		ok      bool
	}{
		"none": {nil, 0, true}, "both": {[]Member{first, second}, 9, true}, "more behind them": {[]Member{first, second}, 20, true},
		"one of no bytes": {[]Member{{"a", 0, 0, 2}}, 2, true},
		"beyond the file": {[]Member{first, second}, 8, false}, "out of order": {[]Member{{"b", 0, 4, 2}, {"a", 6, 0, 3}}, 9, false},
		"one name twice": {[]Member{first, {"a", 6, 0, 3}}, 9, false}, "a gap": {[]Member{first, {"b", 7, 0, 1}}, 9, false}, "a path": {[]Member{{"x/a", 0, 4, 2}}, 9, false},
		"no manifest": {[]Member{{"a", 0, 4, 0}}, 9, false}, "less than nothing": {[]Member{{"a", 0, -1, 2}}, 9, false}, "too large": {[]Member{{"a", 0, 1 << 62, 1 << 62}}, 9, false},
	} {
		if err := checkMembers(c.members, c.bytes); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two shards go into a pack and are read from it by their old paths; the bytes and manifests
// that come out of it are those that went in. One that was sealed again meanwhile stays.
func TestPack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "00000.parquet"), filepath.Join(dir, "00003.parquet"), filepath.Join(dir, "00007.parquet")}
	pack := filepath.Join(dir, "00000-00999.parquet")
	var manifests [][]byte
	w := must.Get(CreatePack(pack, testAttempt))(t)
	for i, path := range paths {
		write(t, path, "rows "[:i+1])
		data, _, offset, err := w.Add(t.Context(), path)
		manifests = append(manifests, get(t, ManifestPath(path)))
		if want := map[int]int64{0: 0, 1: int64(1 + len(manifests[0])), 2: int64(3 + len(manifests[0]) + len(manifests[min(1, i)]))}[i]; err != nil || string(data) != "rows "[:i+1] || offset != want {
			t.Errorf("%s: %q at %d, want %d, %v", path, data, offset, want, err)
		}
	}
	m := must.Get(w.Commit([]byte("tail"), Manifest{}))(t)
	if len(m.Members) != 3 || m.Members[1].Name != "00003.parquet" || m.Members[1].Bytes != 2 || m.Members[1].ManifestBytes != int64(len(manifests[1])) {
		t.Errorf("members %+v", m.Members)
	}
	must.Do(t, w.Abort())                                        // which does nothing now
	other := filepath.Join(t.TempDir(), filepath.Base(paths[2])) // where no pack holds it
	write(t, other, "sealed again")
	put(t, paths[2], get(t, other))
	put(t, ManifestPath(paths[2]), get(t, ManifestPath(other)))
	for range 2 { // the second time there is nothing to do
		must.Do(t, RemovePacked(t.Context(), pack))
	}
	if got := names(t, dir); !slices.Equal(got, []string{"00000-00999.parquet", "00000-00999.parquet.json", "00007.parquet", "00007.parquet.json"}) {
		t.Errorf("beside the pack there are %q", got)
	}
	for i, want := range []string{"r", "ro", "sealed again"} {
		if data, _, err := Open(t.Context(), paths[i], Options{}); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", paths[i], data, err)
		}
	}
	if _, _, err := Open(t.Context(), filepath.Join(dir, "00001.parquet"), Options{}); !errors.Is(err, ErrNotSealed) {
		t.Errorf("one that is in no pack: %v", err)
	}
	if dropped, err := Unpack(t.Context(), pack+"/", testAttempt); len(dropped) != 0 || err != nil {
		t.Errorf("unpacked without %q, %v", dropped, err)
	}
	for i, want := range []string{"r", "ro", "sealed again"} {
		if got := get(t, paths[i]); string(got) != want || i < 2 && !bytes.Equal(get(t, ManifestPath(paths[i])), manifests[i]) {
			t.Errorf("%s: %q", paths[i], got)
		}
	}
	if _, err := os.Lstat(pack); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pack is still there: %v", err)
	}
	if err := RemovePacked(t.Context(), pack); !errors.Is(err, ErrNotSealed) {
		t.Errorf("without a pack: %v", err)
	}
}
