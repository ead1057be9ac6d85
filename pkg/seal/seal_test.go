package seal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("LATHE_SEAL_TEST_WRITER"); dir != "" {
		crashWriter(dir)
		return
	}
	os.Exit(m.Run())
}

var testAttempt = Attempt{JobID: "4711", TaskID: "3", Number: 2, Host: "node1"}

// write seals text at path and fails the test if it cannot.
func write(t *testing.T, path, text string) Manifest {
	t.Helper()
	m, err := WriteBytes(path, []byte(text), testAttempt, Manifest{PolicyVersion: -1})
	if err != nil {
		t.Fatalf("sealing %s: %v", path, err)
	}
	return m
}

// names lists a folder, temporary files included.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(path, data, 0o666))
}

func get(t *testing.T, path string) []byte {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return data
}

func shaOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

func TestCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "iter", "000001", "plan.parquet")
	at := time.Date(2026, 10, 1, 12, 0, 0, 5, time.FixedZone("CEST", 2*3600))
	a := testAttempt
	a.PID = 99
	a.Clock = func() time.Time { return at }
	w := must.Get(Create(path, a))(t)
	for _, part := range []string{"ab", "", "c"} {
		must.Get(w.Write([]byte(part)))(t)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 || !strings.HasPrefix(got[0], ".plan.parquet.4711_3.2.99-") || !strings.HasSuffix(got[0], ".tmp") {
		t.Errorf("before the commit the folder holds %q", got)
	}
	given := Manifest{
		Schema: Schema{"instance", 1, 0}, Rows: 7, PolicyVersion: -1, Seed: 1<<64 - 1, Stage: "buffer", Run: "first-1", Iteration: 1, Step: 4, Wave: 5, Shard: 2, Of: 3,
		Inputs: []Input{{"iter/000001/score/00000.parquet", shaOf("x")}}, RecipeSHA256: shaOf("recipe"),
		Metrics: map[string]float64{"reward_mean": 0.1}, Notes: map[string]json.RawMessage{"preset": json.RawMessage(`{"clip":0.2}`)},
		BinaryVersion: "v0.1.0",
	}
	m := must.Get(w.Commit(given))(t)
	want := given
	want.Format, want.Name, want.Kind, want.Bytes = "lathe-manifest/1.3", "plan.parquet", KindFile, 3
	// SHA-256 of "abc": FIPS 180-4, appendix example.
	want.SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	want.ContentSHA256 = want.SHA256
	want.Attempt, want.Host, want.Job, want.PID = 2, "node1", "4711_3", 99
	want.Started, want.Ended, want.ExitCause = at.UTC(), at.UTC(), "done"
	compact := func(m Manifest) Manifest { // indentation of notes is not part of their meaning
		m.Notes = map[string]json.RawMessage{"preset": nil}
		return m
	}
	if d := cmp.Diff(compact(want), compact(m)); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
	if got, want := names(t, filepath.Dir(path)), []string{"plan.parquet", "plan.parquet.json"}; !cmp.Equal(got, want) {
		t.Errorf("after the commit the folder holds %q, want %q", got, want)
	}
	data, opened, err := Open(t.Context(), path, Options{})
	if err != nil || string(data) != "abc" {
		t.Fatalf("Open = %q, %v", data, err)
	}
	if d := cmp.Diff(m, opened); d != "" {
		t.Errorf("Open returned another manifest (-committed +opened):\n%s", d)
	}
	for name, read := range map[string]func(context.Context, string, Options) (Manifest, error){"Read": Read, "Verify": Verify} {
		got, err := read(t.Context(), path, Options{})
		if err != nil || !cmp.Equal(got, m) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Commit(given); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a second Commit gives %v, want our bug", err)
	}
	if err := w.Abort(); err != nil {
		t.Errorf("Abort after Commit: %v", err)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := must.Get(Create(filepath.Join(dir, "x"), testAttempt))(t)
	fmt.Fprint(w, "text")
	must.Do(t, w.Abort())
	must.Do(t, w.Abort())
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestCommitRefusesManifestsOfNoMeaning(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Manifest{
		"NaN":     {Metrics: map[string]float64{"loss": nan()}},
		"rows":    {Rows: -1},
		"content": {ContentSHA256: "abc"},
		"notes":   {Notes: map[string]json.RawMessage{"preset": json.RawMessage("{")}},
	} {
		dir := t.TempDir()
		_, err := WriteBytes(filepath.Join(dir, "x"), []byte("text"), testAttempt, m)
		if exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%s: error %v, want our bug", name, err)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: left behind %q", name, got)
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// A writer that comes second loses harmlessly, with the same bytes or others.
func TestSecondWriterKeepsTheFirst(t *testing.T) {
	t.Parallel()
	for _, second := range []string{"first", "other"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		first := write(t, path, "first")
		m := write(t, path, second)
		if d := cmp.Diff(first, m); d != "" {
			t.Errorf("the second writer of %q got another manifest (-first +second):\n%s", second, d)
		}
		if got := string(get(t, path)); got != "first" {
			t.Errorf("the file holds %q", got)
		}
		if got := names(t, dir); len(got) != 2 {
			t.Errorf("left behind: %q", got)
		}
	}
}

// What a killed or damaged attempt can leave is replaced by the next one.
func TestNextAttemptMends(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, path string){
		"data without manifest, same bytes":  func(t *testing.T, path string) { os.Remove(ManifestPath(path)) },
		"data without manifest, other bytes": func(t *testing.T, path string) { os.Remove(ManifestPath(path)); put(t, path, []byte("oops")) },
		"manifest without data":              func(t *testing.T, path string) { os.Remove(path) },
		"damaged data":                       func(t *testing.T, path string) { put(t, path, []byte("tect")) },
		"short data":                         func(t *testing.T, path string) { put(t, path, []byte("te")) },
		"empty manifest":                     func(t *testing.T, path string) { put(t, ManifestPath(path), nil) },
		"damaged manifest": func(t *testing.T, path string) {
			put(t, ManifestPath(path), bytes.Replace(get(t, ManifestPath(path)), []byte("node1"), []byte("node2"), 1))
		},
		"damaged manifest, damaged data": func(t *testing.T, path string) {
			put(t, ManifestPath(path), []byte("{}"))
			put(t, path, []byte("oops"))
		},
		"another file's manifest": func(t *testing.T, path string) {
			write(t, path+"2", "oops")
			put(t, ManifestPath(path), get(t, ManifestPath(path+"2")))
			os.Remove(path + "2")
			os.Remove(ManifestPath(path + "2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "x")
			write(t, path, "text")
			spoil(t, path)
			if _, err := Verify(t.Context(), path, Options{}); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotSealed) {
				t.Fatalf("Verify of spoilt files: %v", err)
			}
			write(t, path, "text")
			data, _, err := Open(t.Context(), path, Options{})
			if err != nil || string(data) != "text" {
				t.Errorf("after the next attempt: %q, %v", data, err)
			}
			if got := names(t, dir); len(got) != 2 {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

// File systems without links (FAT, some FUSE) and NFS, which may answer
// "exists" to a repeated request that has succeeded.
//
// Alone: it replaces link, which the package shares.
func TestOddLinks(t *testing.T) {
	defer func() { link = os.Link }()
	refuse := func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM} }
	lostReply := func(from, to string) error {
		if err := os.Link(from, to); err != nil {
			return err
		}
		return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EEXIST}
	}
	for name, odd := range map[string]func(from, to string) error{"no links": refuse, "lost reply": lostReply} {
		link = odd
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		first := write(t, path, "first")
		if second := write(t, path, "second"); !cmp.Equal(first, second) {
			t.Errorf("%s: the second writer replaced the first", name)
		}
		put(t, path, []byte("damaged"))
		if name == "no links" {
			write(t, path, "first")
			if _, err := Verify(t.Context(), path, Options{}); err != nil {
				t.Errorf("%s: after mending: %v", name, err)
			}
		}
		for i, wantWon := range []bool{true, false} {
			won, existing, err := Claim(filepath.Join(dir, "claim"), []byte{byte('a' + i)}, testAttempt)
			if err != nil || won != wantWon || !won && string(existing) != "a" {
				t.Errorf("%s: claim %d: won %v, existing %q, error %v", name, i, won, existing, err)
			}
		}
		if got, want := names(t, dir), []string{"claim", "x", "x.json"}; !cmp.Equal(got, want) {
			t.Errorf("%s: left %q, want %q", name, got, want)
		}
	}
}

func TestJSONDocuments(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.json")
	type document struct {
		ID string `json:"id"`
		N  int    `json:"n"`
	}
	if _, err := WriteJSON(path, document{"<r>", 3}, testAttempt, Manifest{}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(get(t, path)), "{\n  \"id\": \"<r>\",\n  \"n\": 3\n}\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	var got document
	if _, err := ReadJSON(t.Context(), path, Options{}, &got); err != nil || got != (document{"<r>", 3}) {
		t.Errorf("read %+v, %v", got, err)
	}
	var other struct{ ID int }
	if _, err := ReadJSON(t.Context(), path, Options{}, &other); !errors.Is(err, ErrDamaged) {
		t.Errorf("another document: %v, want damaged", err)
	}
	if _, err := WriteJSON(path+"2", func() {}, testAttempt, Manifest{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("what has no JSON: %v, want our bug", err)
	}
}

func TestClaimHasOneWinner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "gate")
	type result struct {
		won      bool
		existing string
		err      error
	}
	const claimants = 16
	results := make(chan result)
	for i := range claimants {
		go func() {
			won, existing, err := Claim(path, fmt.Appendf(nil, "claimant %d", i), testAttempt)
			results <- result{won, string(existing), err}
		}()
	}
	winners, seen := 0, map[string]bool{}
	for range claimants {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		if r.won {
			winners++
		} else {
			seen[r.existing] = true
		}
	}
	if winners != 1 {
		t.Errorf("%d winners", winners)
	}
	if content := string(get(t, path)); len(seen) != 1 || !seen[content] {
		t.Errorf("the losers saw %v, the file holds %q", seen, content)
	}
}

func TestAttemptFromEnv(t *testing.T) {
	host := must.Get(os.Hostname())(t)
	for _, c := range []struct {
		env  map[string]string
		want Attempt
	}{
		{nil, Attempt{JobID: localJob(host), TaskID: "0"}},
		{map[string]string{"SLURM_JOB_ID": "12"}, Attempt{JobID: "12", TaskID: "0"}},
		{map[string]string{"SLURM_JOB_ID": "14", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "1"}, Attempt{JobID: "12", TaskID: "1"}},
		{map[string]string{"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "2", "LATHE_ATTEMPT": "3"}, Attempt{JobID: "12", TaskID: "0", Number: 5, Restarts: 2}},
		{map[string]string{"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "", "LATHE_ATTEMPT": "x"}, Attempt{JobID: "12", TaskID: "0"}},
	} {
		for _, name := range []string{"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "LATHE_ATTEMPT"} {
			t.Setenv(name, c.env[name])
		}
		got := AttemptFromEnv()
		if got.Host != host || got.PID != os.Getpid() || got.Clock == nil {
			t.Errorf("%v: host %q, pid %d", c.env, got.Host, got.PID)
		}
		got.Host, got.PID, got.Clock = "", 0, nil
		if got.JobID != c.want.JobID || got.TaskID != c.want.TaskID || got.Number != c.want.Number {
			t.Errorf("%v: %+v, want %+v", c.env, got, c.want)
		}
	}
}

// Writers that commit at one instant all return the one manifest that is in
// place, with the same bytes or each with its own.
func TestRacingWriters(t *testing.T) {
	t.Parallel()
	const writers = 8
	for round := range 10 {
		path := filepath.Join(t.TempDir(), "x")
		start := make(chan struct{})
		results := make(chan Manifest, writers)
		for i := range writers {
			w := must.Get(Create(path, testAttempt))(t)
			fmt.Fprintf(w, "writer %d", i*(round%2))
			go func() {
				<-start
				m, err := w.Commit(Manifest{})
				if err != nil {
					t.Error(err)
				}
				results <- m
			}()
		}
		close(start)
		var want Manifest
		for i := range writers {
			m := <-results
			if i == 0 {
				want = m
			} else if d := cmp.Diff(want, m); d != "" {
				t.Fatalf("round %d: two manifests (-one +other):\n%s", round, d)
			}
		}
		got, err := Verify(t.Context(), path, Options{})
		if err != nil || !cmp.Equal(got, want) {
			t.Fatalf("round %d: at the end %+v, %v", round, got, err)
		}
		if got := names(t, filepath.Dir(path)); len(got) != 2 {
			t.Errorf("round %d: left behind %q", round, got)
		}
	}
}
