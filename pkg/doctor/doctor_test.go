package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/site"
)

// Lines as sinfo of Slurm 22.05 prints them.
func TestParsePartitions(t *testing.T) {
	t.Parallel()
	got, err := parsePartitions("low*|up|1:00:00|2|4|2000|gpu:fake:2\n" +
		"gpu|up|2-12:30:00|8|64+|512000+|gpu:h100:8(S:0-1)\ngpu|up|2-12:30:00|1|32|256000|(null)\n" +
		"old|down|infinite|1|4|2000|(null)\nlong|up|infinite|3|16|64000|gpu:4,nvme:1\n")
	want := []Partition{
		{Name: "low", Default: true, Minutes: 60, Nodes: 2, AllCPUs: 8, CPUs: 4, MemoryMB: 2000, GPUs: 4, GPUType: "fake"},
		{Name: "gpu", Minutes: 2*24*60 + 12*60 + 30, Nodes: 9, AllCPUs: 544, CPUs: 64, MemoryMB: 512000, GPUs: 64, GPUType: "h100"},
		{Name: "long", Nodes: 3, AllCPUs: 48, CPUs: 16, MemoryMB: 64000, GPUs: 12},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := parsePartitions("low*|up\n"); err == nil {
		t.Error("a line that is cut off is read")
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("gpu|up|2-12:30:00|8|64+|512000+|gpu:h100:8(S:0-1)\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parsePartitions(text) // none may panic
		_ = memoryTotal([]byte(text))
		_ = driverVersion([]byte(text))
		_ = instructionSets([]byte(text))
		_ = coresOf(text)
		_ = parseAssociations(text)
		_, _ = parseWatch(text)
	})
}

func TestHostFiles(t *testing.T) {
	t.Parallel()
	if got := driverVersion([]byte("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jul 1\nGCC version: 12\n")); got != "535.261.03" {
		t.Errorf("driver %q", got)
	}
	if got := driverVersion([]byte("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n")); got != "570.86.15" {
		t.Errorf("open driver %q", got)
	}
	if got := memoryTotal([]byte("MemTotal:       16384 kB\nMemFree: 1 kB\n")); got != 16<<20 {
		t.Errorf("memory %d", got)
	}
	if got := instructionSets([]byte("processor\t: 0\nflags\t\t: fpu fma sse avx2 avx512f\nflags\t\t: fpu\n")); !reflect.DeepEqual(got, []string{"avx2", "fma", "avx512f"}) {
		t.Errorf("levels %v", got)
	}
}

// A host with two nodes of memory says how large a task may be to stay near its own.
func TestMemoryNodes(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]int{"0-1\n": 2, "0-31,64-95\n": 64, "5": 1, "\n": 0, "": 0, "3-1": 0, "a-b": 0} {
		if got := coresOf(list); got != want {
			t.Errorf("%q: %d cores, want %d", list, got, want)
		}
	}
	for _, c := range []struct {
		cores []int
		want  string
	}{
		{nil, "64.0 GiB"},
		{[]int{64}, "64.0 GiB"},
		{[]int{64, 48}, "64.0 GiB in 2 NUMA nodes of 48 cores: tasks of at most 48 cores use NUMA-local memory"},
	} {
		var r Report
		Host{Name: "n", MemoryBytes: 64 << 30, NUMACores: c.cores}.reportOn(&r)
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.About == "node n, memory" })
		if i < 0 || r.Findings[i].Found != c.want {
			t.Errorf("%v: %+v, want %q", c.cores, r.Findings, c.want)
		}
	}
}

// Two witnesses in one folder, and what is said of them.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ended := make(chan error, 2)
	for rank := range 2 {
		go func() { ended <- Bear(t.Context(), folder, rank, folder) }()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	a, errA := readWitness(folder, 0)
	b, errB := readWitness(folder, 1)
	if errA != nil || errB != nil || a.Failure+b.Failure != "" {
		t.Fatalf("%v %v %q %q", errA, errB, a.Failure, b.Failure)
	}
	if len(a.Won)+len(b.Won) != claims || a.New <= 0 || a.Replaced <= 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
	var r Report
	reportWitnesses(&r, a, b)
	if r.Problems() > 0 {
		t.Errorf("%+v", r)
	}
	both := b
	both.Won = append([]int{}, a.Won...) // names with two first makers, and some with none
	both.Won = append(both.Won, b.Won[:len(b.Won)/2]...)
	r = Report{}
	reportWitnesses(&r, a, both)
	if len(a.Won) > 0 && r.Problems() != 1 {
		t.Errorf("two first makers are %+v", r)
	}
	failed := b
	failed.Failure = "nothing showed"
	r = Report{}
	reportWitnesses(&r, a, failed)
	if r.Problems() != 1 || len(r.Findings) != 1 {
		t.Errorf("a witness that saw nothing is %+v", r)
	}
}

// A profile says what each line was deduced from, and is read back.
func TestProfile(t *testing.T) {
	t.Parallel()
	r := Report{Place: "slurm"}
	r.add("--mem", Note, "sbatch failed: no\nno", "sbatch --test-only", "memory_flag: false")
	r.add("something", OK, "x", "y")
	r.add("GPUs", OK, "2", "sinfo", "gpus: 2")
	r.add("GPUs again", OK, "3", "sinfo", "gpus: 3") // the first one holds
	path := filepath.Join(t.TempDir(), "mine.yaml")
	text := r.Profile("mine")
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "# --mem: sbatch failed: no; no\n# source: sbatch --test-only\nmemory_flag: false\n") {
		t.Errorf("the profile is\n%s", text)
	}
	found, err := site.Load(path)
	if err != nil || found.Site.MemoryFlag || found.Site.GPUs != 2 || found.Site.Executor != "slurm" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestFailedLookupsThatAreRemembered has two nodes meet in a folder of a file system
// that answers for two seconds that a name is not there, once it was not: what NFS
// does for up to a minute.
func TestFailedLookupsThatAreRemembered(t *testing.T) {
	t.Parallel()
	const seconds = 2
	if _, err := exec.LookPath("bindfs"); err != nil {
		t.Skip("bindfs is missing: apt-get install bindfs")
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "trial"), 0o777); err != nil {
		t.Fatal(err)
	}
	cache := fmt.Sprintf("negative_timeout=%d,entry_timeout=%d,attr_timeout=0", seconds, seconds)
	var nodes [2]string
	for rank := range nodes {
		nodes[rank] = t.TempDir()
		if out, err := exec.Command("bindfs", "-o", cache, folder, nodes[rank]).CombinedOutput(); err != nil {
			t.Skipf("nothing can be mounted here: %v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("fusermount", "-u", nodes[rank]).CombinedOutput(); err != nil {
				t.Errorf("unmounting: %v: %s", err, out)
			}
		})
	}
	var both sync.WaitGroup
	for rank, node := range nodes {
		both.Go(func() {
			if err := Bear(t.Context(), filepath.Join(node, "trial"), rank, node); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	w, err := readWitness(filepath.Join(folder, "trial"), 0)
	if err != nil || w.Failure != "" || w.New < seconds {
		t.Errorf("a new name showed after %.3f s, %v %q", w.New, err, w.Failure)
	}
}
