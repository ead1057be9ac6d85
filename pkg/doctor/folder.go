package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// fileSystems are the names of file systems by their magic numbers (statfs(2)).
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.NFS_SUPER_MAGIC: "NFS", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.FUSE_SUPER_MAGIC: "FUSE", 0x0BD00BD0: "Lustre",
	0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x00C36400: "Ceph", 0x2FC12FC1: "ZFS", 0x01021997: "9P",
}

// littleFree is what a run may fill while nobody looks.
const littleFree = 10 << 30

// LookAtFolder looks at a folder from this host: room, the user's quota, links, names
// that replace others.
func LookAtFolder(ctx context.Context, r *Report, folder string) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		r.add("folder "+folder, Problem, err.Error(), "statfs(2)")
		return
	}
	kind, known := fileSystems[int64(stat.Type)]
	if !known {
		kind = fmt.Sprintf("file system 0x%x", stat.Type)
	}
	free, level := stat.Bavail*uint64(stat.Bsize), OK
	if free < littleFree {
		level = Note
	}
	r.add("folder "+folder, level, fmt.Sprintf("%s, %.1f GB and %d inodes free", kind, float64(free)/1e9, stat.Ffree), "statfs(2); your quota may be lower")
	lookAtQuota(ctx, r, kind, folder)
	trial, err := os.MkdirTemp(folder, ".lathe-doctor-")
	if err != nil {
		r.add("folder "+folder+", writing", Problem, err.Error(), "creation of a folder in it")
		return
	}
	defer os.RemoveAll(trial)
	attempt := seal.AttemptFromEnv()
	began := time.Now()
	const times = 20
	for i := range times {
		won, _, err := seal.Claim(filepath.Join(trial, "claim"), []byte("x"), attempt)
		if err == nil && won != (i == 0) {
			err = fmt.Errorf("link(2) succeeded %d times for one name, want once", i+1)
		}
		if err == nil {
			err = seal.Replace(filepath.Join(trial, "replaced"), []byte(fmt.Sprint(i)), attempt)
		}
		if err != nil {
			r.add("folder "+folder+", names", Problem, err.Error(), "exclusive creation (link) and atomic replacement (rename) of test files")
			return
		}
	}
	r.add("folder "+folder+", names", OK, fmt.Sprintf("exclusive creation and atomic replacement work, %.1f ms each", time.Since(began).Seconds()*1000/(2*times)), "exclusive creation (link) and atomic replacement (rename) of test files")
}

// claims is how many names two nodes fight for.
const claims = 50

// Witness is what one of two nodes saw of a folder.
type Witness struct {
	Host     Host    `json:"host"`
	Rank     int     `json:"rank"`
	Won      []int   `json:"won"`              // names that it was the first to make
	New      float64 `json:"new_seconds"`      // until a new name showed at the other node and its answer here, where both had looked for it in vain
	Replaced float64 `json:"replaced_seconds"` // the same for a file that got another content
	Missing  int     `json:"missing"`          // times that a file was not there while it was replaced
	Skew     float64 `json:"skew_seconds"`     // of the other's clock against this one
	Failure  string  `json:"failure,omitempty"`
}

// witnessPatience is the longest wait for the other node: twice what the caches of
// NFS keep a failed lookup.
const witnessPatience = 120 * time.Second

// Bear makes one of two nodes a witness: rank 0 asks and rank 1 answers. What it
// saw is written into the folder. The binaries are those of LookAtHost.
func Bear(ctx context.Context, folder string, rank int, binaries string) error {
	w := Witness{Host: LookAtHost(ctx, binaries), Rank: rank, Won: []int{}}
	d := dialogue{folder: folder, rank: rank, attempt: seal.AttemptFromEnv(), until: time.Now().Add(witnessPatience)}
	if err := d.talk(&w); err != nil {
		w.Failure = err.Error()
	}
	return seal.ReplaceJSON(witnessPath(folder, rank), w, d.attempt)
}

func witnessPath(folder string, rank int) string {
	return filepath.Join(folder, fmt.Sprintf("witness-%d.json", rank))
}

// readWitness returns what a node saw, once it has said so.
func readWitness(folder string, rank int) (w Witness, err error) {
	content, err := plainfile.Read(witnessPath(folder, rank), plainfile.MaxDocument)
	if err == nil {
		err = json.Unmarshal(content, &w)
	}
	return w, err
}

// dialogue is two nodes that talk by files.
type dialogue struct {
	folder  string
	rank    int
	attempt seal.Attempt
	until   time.Time
	missing int
}

type word struct {
	Time time.Time `json:"time"`
}

func (d *dialogue) path(name string) string { return filepath.Join(d.folder, name) }

// say publishes a word under a name, in the place of one that is there.
func (d *dialogue) say(name string) error {
	return seal.ReplaceJSON(d.path(name), word{time.Now()}, d.attempt)
}

// hear opens a name until there is a word that differs from an earlier one.
func (d *dialogue) hear(name string, earlier word) (word, error) {
	seen := !earlier.Time.IsZero()
	for {
		var w word
		content, err := plainfile.Read(d.path(name), plainfile.MaxDocument)
		switch {
		case err == nil && json.Unmarshal(content, &w) == nil && !w.Time.Equal(earlier.Time):
			return w, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !seen:
			return w, err
		case err != nil && seen:
			d.missing++ // it was there, and is replaced
		}
		if time.Now().After(d.until) {
			return w, fmt.Errorf("the other node's file %q was not visible within %v", name, witnessPatience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// talk runs all of it: new names, a file that is replaced, and names that
// only one may make.
func (d *dialogue) talk(w *Witness) error {
	var first word
	for round, seconds := range []*float64{nil, &w.New, &w.Replaced} {
		question, answer := fmt.Sprintf("question-%d", round), fmt.Sprintf("answer-%d", round)
		if round == 2 { // the names of the round before
			question, answer = "question-1", "answer-1"
		}
		if d.rank == 1 {
			asked, err := d.hear(question, first)
			if err != nil {
				return err
			}
			if err := d.say(answer); err != nil {
				return err
			}
			first = asked
		} else {
			if round == 1 {
				time.Sleep(300 * time.Millisecond) // the other has looked for it in vain by now
			}
			began := time.Now()
			if err := d.say(question); err != nil {
				return err
			}
			heard, err := d.hear(answer, first)
			if err != nil {
				return err
			}
			took := time.Since(began)
			if seconds != nil {
				*seconds = took.Seconds()
			}
			if round == 2 { // both files were known: the shortest way
				w.Skew = heard.Time.Sub(began.Add(took / 2)).Seconds()
			}
			first = heard
		}
		if round == 0 {
			first = word{}
		}
	}
	w.Missing = d.missing
	for i := range claims {
		won, _, err := seal.Claim(d.path(fmt.Sprintf("claim-%02d", i)), []byte{byte('0' + d.rank)}, d.attempt)
		if err != nil {
			return err
		}
		if won {
			w.Won = append(w.Won, i)
		}
	}
	return nil
}

// reportWitnesses says what two nodes saw of the folder between them.
func reportWitnesses(r *Report, a, b Witness) {
	const from = "two tasks on two nodes that wrote files for each other"
	for _, w := range []Witness{a, b} {
		if w.Failure != "" {
			r.add("between nodes", Problem, fmt.Sprintf("node %s: %s", w.Host.Name, w.Failure), from)
			return
		}
	}
	if a.Host.Name == b.Host.Name {
		r.add("between nodes", Note, "both tasks ran on one host, "+a.Host.Name, "the host names of the tasks")
	}
	patient := func(about string, seconds float64) {
		level := OK
		if seconds > 5 {
			level = Note
		}
		r.add("between nodes, "+about, level, fmt.Sprintf("%.3f s for a round trip; runs wait up to 90 s", seconds), from)
	}
	patient("a new file at a path that was looked up before", a.New)
	patient("a replaced file", a.Replaced)
	if missing := a.Missing + b.Missing; missing > 0 {
		r.add("between nodes, replacing", Note, fmt.Sprintf("the file was missing %d times during replacement", missing), from)
	}
	owners := map[int]int{}
	for _, w := range []Witness{a, b} {
		for _, i := range w.Won {
			owners[i]++
		}
	}
	twice := 0
	for _, n := range owners {
		if n > 1 {
			twice++
		}
	}
	if twice > 0 || len(owners) != claims {
		r.add("between nodes, link", Problem, fmt.Sprintf("of %d exclusive creations %d succeeded on both nodes and %d on none: two controller jobs may submit the same tasks", claims, twice, claims-len(owners)), from)
	} else {
		r.add("between nodes, link", OK, fmt.Sprintf("each of %d exclusive creations succeeded on one node, %d on one and %d on the other", claims, len(a.Won), len(b.Won)), from)
	}
	skew, level := a.Skew, OK
	if skew > 2 || skew < -2 {
		level = Note
	}
	r.add("between nodes, clocks", level, fmt.Sprintf("%+.3f s apart, ±%.3f s; results do not depend on clocks", skew, a.Replaced/2), from)
}
