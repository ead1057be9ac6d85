package monitor

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// The numbers of proc_pid_stat(5): fields 14 to 17 in hundredths of a second, 22 the
// start, 24 in pages. The command may hold anything.
func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "4711 (a) b (c) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 256 18446744073709551615 1"
	if p, ok := parseStat([]byte("1 (a) S 1 1 1 0 -1 0 1 2 0 0 0 0 0 0 20 0 4 0 5 1000000 0")); !ok || p != (process{startedTicks: 5}) { // the fewest fields
		t.Errorf("%+v, %v", p, ok)
	}
	p, ok := parseStat([]byte(line))
	want := process{cpuSeconds: 3, residentBytes: 256 * float64(os.Getpagesize()), startedTicks: 98765}
	if !ok || p != want {
		t.Errorf("%+v, %v; want %+v", p, ok, want)
	}
	for _, bad := range []string{
		"", "4711 (a", "1 (a) S 1", "1 (a) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 x 25 75 20 0 4 0 98765 1000000 256",
		"1 (a) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 x", "1 (a) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 x 1000000 256",
		"1 (a) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000", "1 (a) X 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 256 1", "1 (a) Z 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 256 1",
	} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

// proc_pid_statm(5) counts pages: the whole, what is resident, and of that what a file
// or shared memory has too.
func TestOwnBytes(t *testing.T) {
	t.Parallel()
	for _, statm := range []string{"5000 700 300 10 0 900 0\n", "5000 700 300"} {
		if got, ok := ownBytes([]byte(statm)); !ok || got != 400*float64(os.Getpagesize()) {
			t.Errorf("%v, %v", got, ok)
		}
	}
	for _, bad := range []string{"", "1 2", "1 x 3", "1 2 x"} {
		if _, ok := ownBytes([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 256 1"))
	f.Add([]byte("1 (a) S 1 4711 4711 0 -1 4194560 100 200 0 0 x 50 25 75 20 0 4 0 98765 1000000 256 1"))
	f.Add([]byte("1 2 3 4 - cgroup2 c rw\n1 2 3 / /a rw - cgroup2 c\n:\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		parseStat(content)
		ownBytes(content)
		parseHostStat(content)
		stallSeconds(content)
		keyedNumber(content, "oom_kill")
		cgroupOf(string(content), string(content))
	})
}

// Control groups of both versions, alone and together, in a container and outside:
// lines of proc_pid_mountinfo(5) and proc_pid_cgroup(5).
func TestCgroupOf(t *testing.T) {
	t.Parallel()
	const (
		v2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 none rw,nsdelegate\n"
		v1 = "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	)
	for name, c := range map[string]struct {
		mounts, membership string
		unified            string
		legacy             map[string]string
	}{
		"version 2":    {v2, "0::/system.slice/slurmstepd.scope/job_7/step_batch\n", "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_batch", map[string]string{}},
		"the root":     {v2, "0::/\n", "", map[string]string{}},
		"version 1":    {v1, "5:memory:/slurm/uid_0/job_7\n4:cpu,cpuacct:/slurm/uid_0/job_7\n", "", map[string]string{"memory": "/sys/fs/cgroup/memory/slurm/uid_0/job_7", "cpu": "/sys/fs/cgroup/cpu,cpuacct/slurm/uid_0/job_7", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/slurm/uid_0/job_7"}},
		"a container":  {"30 24 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/abc/inner\n", "/sys/fs/cgroup/inner", map[string]string{}},
		"a space":      {"30 24 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n", "0::/a\n", "/sys/fs/c group/a", map[string]string{}},
		"nothing":      {"", "", "", map[string]string{}},
		"all of it":    {"30 24 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/abc\n", "/sys/fs/cgroup", map[string]string{}},
		"not mounted":  {"30 24 0:26 / /proc rw - proc proc rw\n31 24 0:26 / /cg rw - cgroup2 cgroup2\n31 24 /cg - cgroup2 cgroup2 rw\n", "0::/a\n5:memory:/a\n", "", map[string]string{}},
		"short lines":  {"x\n" + v2 + v1, "0::/a\n7\n0:x\n5:memory:/b:c\n", "/sys/fs/cgroup/a", map[string]string{"memory": "/sys/fs/cgroup/memory/b:c"}},
		"no options":   {"30 24 0:26 / /cg - cgroup2 cgroup2 rw", "0::/a", "/cg/a", map[string]string{}},
		"both, hybrid": {v1 + v2, "5:memory:/a\n0::/b\n", "/sys/fs/cgroup/b", map[string]string{"memory": "/sys/fs/cgroup/memory/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := cgroupOf(c.mounts, c.membership)
			if g.unified != c.unified || !maps.Equal(g.legacy, c.legacy) {
				t.Errorf("%+v, want %q and %v", g, c.unified, c.legacy)
			}
		})
	}
}

// files makes files of a folder.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range contents {
		path := filepath.Join(folder, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return folder
}

// The numbers of control groups of either version are the same ones; what has no
// file has no number.
func TestCgroupNumbers(t *testing.T) {
	t.Parallel()
	unified := files(t, map[string]string{
		"job/cpu.stat": "usage_usec 2500000\nuser_usec 1\n", "job/memory.current": "1048576\n", "job/memory.events": "low 0\noom 3\noom_kill 2\n",
		"job/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=5\n", "job/cpu.max": "150000 100000\n",
		"job/memory.max": "max\n", "memory.max": "4194304\n",
	})
	legacy := files(t, map[string]string{
		"job/cpuacct.usage": "2500000000\n", "job/memory.usage_in_bytes": "1048576\n", "job/memory.oom_control": "oom_kill_disable 0\noom_kill 2\n",
		"job/cpu.cfs_quota_us": "150000\n", "job/cpu.cfs_period_us": "100000\n", "job/memory.limit_in_bytes": "9223372036854771712\n", "memory.limit_in_bytes": "4194304\n",
	})
	common := map[string]float64{CgroupCPUSeconds: 2.5, CgroupMemoryBytes: 1 << 20, CgroupOOMKills: 2}
	withPressure := maps.Clone(common)
	withPressure[CPUStallSeconds] = 1.5
	job := filepath.Join(legacy, "job")
	for name, c := range map[string]struct {
		group cgroup
		want  map[string]float64
	}{
		"version 2": {cgroup{unified: filepath.Join(unified, "job")}, withPressure},
		"version 1": {cgroup{legacy: map[string]string{"cpu": job, "cpuacct": job, "memory": job}}, common},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]float64{}
			c.group.numbers(func(name string, value float64) { got[name] = value })
			if !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			if cores, ok := c.group.cores(); !ok || cores != 1.5 {
				t.Errorf("%v cores, %v", cores, ok)
			}
			if limit, ok := c.group.memoryLimit(); !ok || limit != 4<<20 {
				t.Errorf("the memory is bounded by %v, %v", limit, ok)
			}
		})
	}
	for content, want := range map[string]float64{"150000 100000\n": 1.5, "3 1": 3, "1 1": 1, "max 100000": 0, "0 100000": 0, "3 0": 0, "-3 -1": 0, "3": 0, "3 x": 0, "": 0} {
		quota, period, _ := strings.Cut(content, " ")
		folder := files(t, map[string]string{"cpu.max": content, "cpu.cfs_quota_us": quota, "cpu.cfs_period_us": period})
		for _, group := range []cgroup{{unified: folder}, {legacy: map[string]string{"cpu": folder}}} {
			cores, ok := group.cores()
			if ok != (want > 0) || ok && cores != want {
				t.Errorf("%q is %v cores, %v", content, cores, ok)
			}
			// One core at least is this process's; no process has the number 1<<30, and its cores are the group's.
			if given := coresOf(os.Getpid(), group); given < 1 || ok && given > want {
				t.Errorf("%q leaves %v cores", content, given)
			}
			if given := coresOf(1<<30, group); given != want {
				t.Errorf("%q gives %v cores", content, given)
			}
		}
	}
	for limits, want := range map[[2]string]float64{{"8", "4"}: 4, {"2", "4"}: 2, {"max", "4"}: 4, {"max", "max"}: 0, {"0", "1"}: 0, {"1152921504606846976", "max"}: 0, {"1152921504606846975", "max"}: 0} {
		folder := files(t, map[string]string{"job/memory.max": limits[0], "memory.max": limits[1]})
		if limit, ok := (cgroup{unified: filepath.Join(folder, "job")}).memoryLimit(); limit != want || ok != (limits[0] != "max" && len(limits[0]) == 1 || limits[1] != "max") {
			t.Errorf("%q bound the memory by %v, %v", limits, limit, ok)
		}
	}
	got := map[string]float64{}
	cgroup{}.numbers(func(name string, value float64) { got[name] = value })
	if here := contentOf("", "host.go"); here != nil {
		t.Error("no folder is this one")
	}
	if _, ok := (cgroup{}).memoryLimit(); ok || len(got) != 0 {
		t.Errorf("no group has %v", got)
	}
}

// A process and what it starts is measured, and not this one.
func TestHostMeasuresATask(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo busy; read line'; true")
	input := must.Get(cmd.StdinPipe())(t)
	output := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	alive, h := Watch(cmd.Process.Pid), NewHost(cmd.Process.Pid, 0)
	must.Get(output.Read(make([]byte, 5)))(t)
	if got := readings(h); got[CPUSeconds] <= 0 || got[Processes] != 2 || got[MemoryBytes] <= 0 || got[Cores] < 1 || !alive() {
		t.Errorf("a task that was busy has %v", got)
	}
	if given := NewHost(cmd.Process.Pid, 3.5); given.cores != 3.5 {
		t.Errorf("of 3.5 cores it has %v", given.cores)
	}
	input.Close()
	must.Do(t, cmd.Wait())
	if got := readings(h); len(got) != 1 || got[Fault] != 1 || alive() || Watch(cmd.Process.Pid)() {
		t.Errorf("a task that has ended has %v", got)
	}
	if got := readings(NewHost(0, 0)); got[Processes] != 0 || got[HostCores] < 1 || got[MonitorMemoryBytes] <= 0 {
		t.Errorf("the host has %v", got)
	}
}

// readings are what one read of a host gives, by name.
func readings(h *Host) map[string]float64 {
	got := map[string]float64{}
	h.Read(time.Time{}, func(r Reading) { got[r.Name] = r.Value })
	return got
}

// A task of a process with two threads, a child of each and a grandchild, and the monitor beside them, read by the
// files of proc(5): what has ended keeps what it read and wrote, what is new is found with the fifth read after.
// Alone: it sets the environment.
func TestHostReads(t *testing.T) {
	t.Setenv("SLURM_MEM_PER_NODE", "")
	t.Setenv("SLURM_MEM_PER_CPU", "")
	stat := func(cpu, pages string) string {
		return "1 (a) S 1 1 1 0 -1 0 1 2 0 0 " + cpu + " 0 0 0 20 0 4 0 5 1000000 " + pages
	}
	root := files(t, map[string]string{
		"10/stat": stat("100", "1"), "10/io": "rchar: 9\nread_bytes: 1000\nwrite_bytes: 1\n", "10/task/10/children": "11 99 ", "10/task/12/children": "13 ",
		"11/stat": stat("200", "2"), "11/io": "read_bytes: 2000\nwrite_bytes: 2\n", "11/task/11/children": "14", "14/stat": stat("400", "4"), "13/stat": stat("800", "8"),
		"99/stat": stat("50", "16"), "99/statm": "9 7 4", "15/stat": stat("1600", "16"),
		"stat": "cpu  100 200 300 4000 50 60 70 80 9 9\ncpu0 1\ncpu1 1\nintr 1 2\n", "meminfo": "MemTotal: 16 kB\nMemFree: 1 kB\nMemAvailable: 6 kB\n",
		"pressure/cpu": "some total=1500000\n", "pressure/memory": "some total=2500000\n", "pressure/io": "some total=3500000\n",
		"group/memory.current": "77", "group/memory.max": "1", "group/cpu.max": "1 1", "10/cgroup": "0::/group",
	})
	must.Do(t, os.WriteFile(filepath.Join(root, "10/mountinfo"), []byte("30 24 0:26 / "+root+" rw - cgroup2 cgroup2 rw"), 0o644))
	h := newHost(root, 10, 0)
	h.self, h.task.without = 99, 99
	page := float64(os.Getpagesize())
	task := map[string]float64{CPUSeconds: 15, MemoryBytes: 15 * page, ReadBytes: 3000, WriteBytes: 3, Processes: 4, Cores: 1, MemoryLimitBytes: 1, CgroupMemoryBytes: 77}
	host := map[string]float64{
		HostCPUSeconds: 8.1, HostCores: 2, HostMemoryTotalBytes: 16 << 10, HostMemoryBytes: 10 << 10, HostCPUStallSeconds: 1.5, HostMemoryStallSeconds: 2.5, HostIOStallSeconds: 3.5,
		MonitorCPUSeconds: 0.5, MonitorMemoryBytes: 3 * page,
	}
	for i := range 12 {
		want := maps.Clone(task)
		if i%5 == 0 {
			maps.Copy(want, host)
		}
		switch {
		case i >= 10: // all have ended
			want = map[string]float64{}
			if i == 10 {
				maps.Copy(want, host)
				want[Fault] = 1
			}
		case i >= 5: // the 16 s of 15 took the place of the 2 s of 11, whose pages are gone and whose reads are not
			want[CPUSeconds], want[MemoryBytes] = 29, 29*page
		case i >= 2: // it does not go back
			want[MemoryBytes], want[Processes] = 13*page, 3
		}
		if got := readings(h); !maps.Equal(got, want) {
			t.Fatalf("read %d has %v\nwant %v", i, got, want)
		}
		switch i {
		case 1:
			must.Do(t, errors.Join(os.RemoveAll(filepath.Join(root, "11")), os.WriteFile(filepath.Join(root, "10/task/10/children"), []byte("x 15 99 14"), 0o644)))
		case 9:
			for _, pid := range []string{"10", "13", "14", "15"} {
				must.Do(t, os.RemoveAll(filepath.Join(root, pid)))
			}
		}
	}
	bare := readings(&Host{root: root, task: &tree{root: files(t, map[string]string{"10/stat": stat("100", "1")}), pid: 10}})
	if _, there := bare[Cores]; there || bare[CPUSeconds] != 1 {
		t.Errorf("what nobody bounds has %v", bare)
	}
	if _, there := bare[MemoryLimitBytes]; there {
		t.Errorf("what nobody bounds has %v", bare)
	}
	for name, broken := range map[string]string{"no total": "MemAvailable: 6 kB\n", "no rest": "MemTotal: 16 kB\n"} {
		only := &Host{root: files(t, map[string]string{"meminfo": broken})}
		if got := readings(only); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The memory of a task is what Slurm gave it, else what its control group is bound by. Alone: it sets the environment.
func TestMemoryGiven(t *testing.T) {
	group := cgroup{unified: files(t, map[string]string{"memory.max": "7"})}
	for perNode, want := range map[string]float64{"1": 1 << 20, "0": 7, "": 7} {
		t.Setenv("SLURM_MEM_PER_NODE", perNode)
		t.Setenv("SLURM_MEM_PER_CPU", "")
		if got := memoryGiven(group); got != want {
			t.Errorf("%q: %v", perNode, got)
		}
	}
}

// A process descends from itself and from those that have started it.
func TestDescends(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "600")
	must.Do(t, child.Start())
	self, its := os.Getpid(), child.Process.Pid
	for _, c := range []struct {
		pid, from int
		want      bool
	}{{self, self, true}, {its, self, true}, {its, os.Getppid(), true}, {self, its, false}, {its, 0, false}, {0, 0, false}, {1 << 30, self, false}} {
		if got := Descends(c.pid, c.from); got != c.want {
			t.Errorf("%d descends from %d: %v", c.pid, c.from, got)
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()
}

// The whole host, by lines of proc_stat(5) and proc_meminfo(5).
func TestHostLines(t *testing.T) {
	t.Parallel()
	busy, cores, ok := parseHostStat([]byte("cpu  100 200 300 4000 50 60 70 80 9 9\ncpu0 50 100 150 2000 25 30 35 40 0 0\ncpu1 50 100 150 2000 25 30 35 40 0 0\nintr 1 2\n"))
	if busy != 8.1 || cores != 2 || !ok {
		t.Errorf("%v s on %d cores, %v", busy, cores, ok)
	}
	for _, bad := range []string{"", "\ncpu  100 200 300 4000 50 60 70 80\n", "cpu  100 200 300 4000 50 60 70\n", "cpu  100 200 300 4000 50 60 70 x 9 9\n", "intr 1\ncpu  100 200 300 4000 50 60 70 80\n"} {
		if busy, cores, ok := parseHostStat([]byte(bad)); ok {
			t.Errorf("%q has %v s on %d cores", bad, busy, cores)
		}
	}
	if busy, cores, ok := parseHostStat([]byte("cpu  100 200 300 4000 50 60 70 80")); busy != 8.1 || cores != 0 || !ok { // the fewest fields
		t.Errorf("%v s on %d cores, %v", busy, cores, ok)
	}
	for content, want := range map[string]float64{"A: 1\nMemTotal:  16 kB\nMemTotal: 1 kB\n": 16, "MemTotal: 16": 16, "MemTotal:": -1, "MemTotal: x": -1, "": -1} {
		if total, ok := keyedNumber([]byte(content), "MemTotal:"); ok != (want >= 0) || ok && total != want {
			t.Errorf("%q has %v bytes, %v", content, total, ok)
		}
	}
	for content, want := range map[string]float64{"full total=1\nsome avg10=0.00 total=2500000\n": 2.5, "some total=x": -1, "some avg10=0": -1, "full total=1": -1, "": -1} {
		if seconds, ok := stallSeconds([]byte(content)); ok != (want >= 0) || ok && seconds != want {
			t.Errorf("%q is %v s, %v", content, seconds, ok)
		}
	}
}

// What CUDA and Slurm say of devices.
func TestDevicesGiven(t *testing.T) {
	t.Parallel()
	index := func(i int) Token { return Token{Index: i, GPUInstance: -1, ComputeInstance: -1} }
	uuid := func(s string) Token { return Token{Index: -1, UUID: s, GPUInstance: -1, ComputeInstance: -1} }
	for name, c := range map[string]struct {
		env  map[string]string
		want []Token
		all  bool
	}{
		"nothing":         {nil, nil, true},
		"CUDA":            {map[string]string{"CUDA_VISIBLE_DEVICES": "0, 2", "SLURM_JOB_GPUS": "5"}, []Token{index(0), index(2)}, false},
		"none":            {map[string]string{"CUDA_VISIBLE_DEVICES": ""}, nil, false},
		"NoDevFiles":      {map[string]string{"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, nil, false},
		"UUID":            {map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c"}, []Token{uuid("GPU-8932f937-d72c")}, false},
		"MIG":             {map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-a-b"}, []Token{uuid("MIG-a-b")}, false},
		"MIG, old":        {map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-GPU-a/1/0"}, []Token{{Index: -1, UUID: "GPU-a", GPUInstance: 1, ComputeInstance: 0}}, false},
		"Slurm":           {map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1,4-6"}, []Token{index(1), index(4), index(5), index(6)}, false},
		"Slurm's step":    {map[string]string{"SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "gpu:a100:1"}, []Token{index(1)}, false},
		"Slurm, empty":    {map[string]string{"SLURM_STEP_GPUS": "", "SLURM_JOB_GPUS": "3"}, []Token{index(3)}, false},
		"beyond a host":   {map[string]string{"SLURM_JOB_GPUS": "4094-99999999,x-1,1-x,-1,,0"}, []Token{index(4094), index(4095), index(4096), index(0)}, false},
		"no devices":      {map[string]string{"SLURM_JOB_GPUS": "GPU-,MIG-,MIG-GPU-a/1,MIG-GPU-a/x/0,MIG-GPU-a/0/x,MIG-GPU-a/-1/0,MIG-GPU-a/0/-1,MIG-GPU-a/1/0/0"}, nil, false},
		"up to no device": {map[string]string{"CUDA_VISIBLE_DEVICES": "0,x,1"}, []Token{index(0)}, false},
		"least":           {map[string]string{"SLURM_JOB_GPUS": "MIG-GPU-a/0/0,0-0"}, []Token{{UUID: "GPU-a", Index: -1}, index(0)}, false},
		"Slurm, no GPU":   {map[string]string{"SLURM_JOB_ID": "7"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := DevicesGiven(func(name string) (string, bool) {
				value, set := c.env[name]
				return value, set
			})
			if !slices.Equal(got.Tokens, c.want) || got.All != c.all {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			var names []string
			for _, token := range got.Tokens {
				names = append(names, token.String())
			}
			if again := cudaTokens(strings.Join(names, ",")); !slices.Equal(again, got.Tokens) {
				t.Errorf("%q names %+v, want %+v", names, again, got.Tokens)
			}
		})
	}
}

func FuzzDevicesGiven(f *testing.F) {
	for _, seed := range []string{"0,1", "GPU-a", "MIG-GPU-a/1/0", "0-9999999999", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, name := range []string{"CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS"} {
			for _, token := range DevicesGiven(func(asked string) (string, bool) { return value, asked == name }).Tokens {
				if (token.Index < 0) == (token.UUID == "") {
					t.Errorf("%q has %+v", value, token)
				}
			}
		}
	})
}
