//go:build cgo

package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/monitortest"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// programs is the folder of what all tests share.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "lathe-monitor"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

var once sync.Once

func buildMonitor(t *testing.T) string {
	t.Helper()
	once.Do(func() { // with the flags of the Makefile
		command := exec.Command("go", "build", "-trimpath", "-tags", "netgo,osusergo,urfave_cli_no_docs", "-ldflags", "-s -w -extldflags=-Wl,-z,lazy", "-o", programs+"/", ".")
		command.Env = append(os.Environ(), "GOAMD64=v1", "CGO_ENABLED=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("building lathe-monitor: %v\n%s", err, out)
		}
	})
	return filepath.Join(programs, "lathe-monitor")
}

// TestSymbols: go-nvml has the linker leave alone what nobody defines, in all that it
// is linked with. Each such symbol has to be one of the C library, with its version,
// or one of NVML, which is bound when it is first called: any other would end the
// program then. No other program has go-nvml.
func TestSymbols(t *testing.T) {
	t.Parallel()
	nvmltest.Compiler(t)
	const list = `{{$path := .ImportPath}}{{range .Deps}}{{if eq . "github.com/NVIDIA/go-nvml/pkg/nvml"}}{{$path}}{{"\n"}}{{end}}{{end}}`
	if out, err := exec.Command("go", "list", "-tags", "netgo,osusergo,urfave_cli_no_docs", "-f", list, "../...").CombinedOutput(); err != nil || string(out) != "github.com/lathe-rl/lathe/cmd/lathe-monitor\n" {
		t.Errorf("%v: go-nvml is in %s", err, out)
	}
	program, err := elf.Open(buildMonitor(t))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	if err != nil || strings.Contains(strings.Join(libraries, " "), "nvidia") {
		t.Errorf("it is linked with %q, %v", libraries, err)
	}
	symbols, err := program.ImportedSymbols() // those that are not weak
	if err != nil {
		t.Fatal(err)
	}
	nvml := 0
	for _, symbol := range symbols {
		switch {
		case strings.HasPrefix(symbol.Version, "GLIBC_"):
		case strings.HasPrefix(symbol.Name, "nvml"):
			nvml++
		default:
			t.Errorf("it wants %s, which no library has", symbol.Name)
		}
	}
	if nvml == 0 {
		t.Error("it has no symbol of NVML")
	}
}

// TestBindNow: an environment that has the loader bind all of a program when it starts
// ends this one before it can say why, which is what its help says. Beside a task it
// starts, and knows which of the processes on the GPU is the task's.
// Alone: the environment is the task's.
func TestBindNow(t *testing.T) {
	library, program, run := nvmltest.Build(t, false), buildMonitor(t), monitortest.Run(t)
	self := os.Getpid()
	script := fmt.Sprintf("0 uuid GPU-aaaa\n0 name A\n0 memory 5\n0 memory_total 9\n0 utilization 50\n0 processes 1\n0 pid %d\n0 process_memory 4\n", self)
	for name, value := range map[string]string{
		"LD_BIND_NOW": "1", "LD_LIBRARY_PATH": filepath.Dir(library), nvmltest.Script: nvmltest.WriteScript(t, script),
		monitor.Variable: program, "CUDA_VISIBLE_DEVICES": "0",
	} {
		t.Setenv(name, value)
	}
	byHand := exec.Command(program)
	if out, err := byHand.CombinedOutput(); byHand.ProcessState == nil || byHand.ProcessState.ExitCode() != 127 || !strings.Contains(string(out), "symbol lookup error") {
		t.Errorf("%v: %s: if it starts by hand, its help need not say that it does not", err, out)
	}
	byHand = exec.Command("env", "-u", "LD_BIND_NOW", program)
	if out, err := byHand.CombinedOutput(); err != nil || !strings.Contains(string(out), "GPU-aaaa") {
		t.Errorf("as its help says: %v: %s", err, out)
	}
	var got map[string][]shard.Sample
	leave := monitor.Beside(run, "rollout-000001-00003", t.Logf)
	for tick := time.Tick(100 * time.Millisecond); len(got[monitor.UtilizationShare]) == 0; <-tick { // sealed after two seconds
		got = monitortest.Samples(t, run)
	}
	leave()
	if rows := got[monitor.UtilizationShare]; len(rows) == 0 || rows[0].Device != "GPU-aaaa" || rows[0].Value != 0.5 || rows[0].Task != "rollout-000001-00003" {
		t.Errorf("the samples are %+v", rows)
	}
	if rows := got[monitor.GPUProcessMemoryBytes]; len(rows) == 0 || rows[0].Value != 4 || rows[0].Detail != strconv.Itoa(self) {
		t.Errorf("the task's memory on the GPU is %+v", rows)
	}
}
