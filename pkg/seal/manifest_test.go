package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func testManifest() Manifest {
	at := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	return Manifest{
		Format: "lathe-manifest/1.0", Name: "v000001", Kind: KindFolder,
		Files: []File{{"config.json", 2, shaOf("{}")}, {"sub/model.safetensors", 1, shaOf("x")}},
		Bytes: 3, SHA256: shaOf("files"), ContentSHA256: shaOf("files"), Seed: 1<<64 - 1, PolicyVersion: 1,
		Started: at, Ended: at, ExitCause: "done", Metrics: map[string]float64{"loss": 0.1},
	}
}

func encoded(t testing.TB, m Manifest) []byte {
	t.Helper()
	data := must.Get(m.encode())(t)
	return data
}

// signed puts a valid digest under the body of a manifest, as encode does.
func signed(body string) []byte {
	sum := sha256.Sum256([]byte(body))
	return []byte(body + tailHead + hex.EncodeToString(sum[:]) + tailEnd)
}

func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()
	m := testManifest()
	data := encoded(t, m)
	got := must.Get(parseManifest(data))(t)
	if d := cmp.Diff(m, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !bytes.Equal(encoded(t, got), data) {
		t.Error("encoding twice gives other bytes")
	}
}

// damageNoticed reports whether a manifest was refused for its bytes, before what
// it says was looked at.
func damageNoticed(err error) bool {
	return err != nil && regexp.MustCompile("^the manifest (is empty|is cut short|does not match its own manifest_sha256)").MatchString(err.Error())
}

// Whatever happens to the bytes of a manifest, it does not parse.
func TestManifestNoticesAllDamage(t *testing.T) {
	t.Parallel()
	data := encoded(t, testManifest())
	for n := range data {
		if _, err := parseManifest(data[:n]); !damageNoticed(err) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
	for i := range data {
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			if _, err := parseManifest(flipped); !damageNoticed(err) {
				t.Fatalf("with bit %d of byte %d flipped (%q): %v", bit, i, data[max(0, i-10):i+1], err)
			}
		}
	}
	if _, err := parseManifest(append(data, '\n')); !damageNoticed(err) {
		t.Errorf("with a byte appended: %v", err)
	}
}

func TestManifestOfAnotherVersion(t *testing.T) {
	t.Parallel()
	good := string(encoded(t, testManifest()))
	body, _, _ := strings.Cut(good, tailHead)
	later := strings.Replace(body, "lathe-manifest/1.0", "lathe-manifest/1.7", 1)
	later = strings.Replace(later, "{", `{"added_later": [1, 2],`, 1)
	if _, err := parseManifest(signed(later)); err != nil {
		t.Errorf("a later minor version with a field more: %v", err)
	}
	for want, change := range map[string][2]string{
		`has format "lathe-manifest/2.0"; this binary reads format 1`:          {"lathe-manifest/1.0", "lathe-manifest/2.0"},
		`format is "something/1.0", expected "lathe-manifest/1.N"`:             {"lathe-manifest/1.0", "something/1.0"},
		`format is "lathe-manifest/1", expected`:                               {"lathe-manifest/1.0", "lathe-manifest/1"},
		`name "../v000001" is not a file name`:                                 {`"name": "v000001"`, `"name": "../v000001"`},
		`kind is "link", expected file or folder`:                              {`"kind": "folder"`, `"kind": "link"`},
		`the manifest of a file lists files`:                                   {`"kind": "folder"`, `"kind": "file"`},
		`has -3 bytes and 0 rows`:                                              {`"bytes": 3`, `"bytes": -3`},
		`sha256 is not 64 hexadecimal digits`:                                  {shaOf("files"), strings.ToUpper(shaOf("files"))},
		`entry for file "sub/../../model.safetensors" is out of range`:         {"sub/model", "sub/../../model"},
		`files are not sorted at "aaa"`:                                        {"sub/model.safetensors", "aaa"},
		`is not one that this version writes: json: cannot unmarshal string`:   {`"rows": 0`, `"rows": "none"`},
		`is not one that this version writes: invalid character 'x' after top`: {"{", "{}x{"},
	} {
		changed := strings.ReplaceAll(body, change[0], change[1])
		if changed == body {
			t.Fatalf("%q is not in the manifest", change[0])
		}
		if _, err := parseManifest(signed(changed)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s -> %s: error %v, want %q", change[0], change[1], err, want)
		}
	}
	if _, err := parseManifest(make([]byte, maxManifestBytes+1)); err == nil || !strings.Contains(err.Error(), "more than 134217728 bytes") {
		t.Errorf("a huge manifest: %v", err)
	}
}

func FuzzParseManifest(f *testing.F) {
	good := encoded(f, testManifest())
	body, _, _ := strings.Cut(string(good), tailHead)
	f.Add(body)
	f.Add(strings.Replace(body, "0.1", "1e999", 1))
	f.Add("{")
	f.Add("")
	f.Fuzz(func(t *testing.T, body string) {
		// As bytes, and as the body of a manifest whose digest is right.
		if _, err := parseManifest([]byte(body)); err == nil && !strings.Contains(body, tailHead) {
			t.Error("parses without a digest")
		}
		m, err := parseManifest(signed(body))
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatalf("what was parsed cannot be encoded: %v", err)
		}
		if _, err := parseManifest(again); err != nil {
			t.Fatalf("what was encoded cannot be parsed: %v", err)
		}
	})
}
