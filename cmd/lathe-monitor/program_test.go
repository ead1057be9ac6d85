//go:build cgo

package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/monitortest"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// build builds programs with the flags of the Makefile.
func build(t *testing.T, folder, linker string, programs ...string) {
	t.Helper()
	arguments := []string{"build", "-trimpath", "-tags", "netgo,osusergo", "-ldflags", linker, "-o", folder + "/"}
	for _, program := range programs {
		arguments = append(arguments, "github.com/lathe-rl/lathe/cmd/"+program)
	}
	command := exec.Command("go", arguments...)
	command.Env = append(os.Environ(), "GOAMD64=v1", "CGO_ENABLED=1")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building %v: %v\n%s", programs, err, out)
	}
}

func buildMonitor(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	build(t, folder, "-s -w -extldflags=-Wl,-z,lazy", "lathe-monitor")
	return filepath.Join(folder, "lathe-monitor")
}

// TestSymbols: go-nvml has the linker leave alone what nobody defines, in all that it
// is linked with. Each such symbol has to be one of the C library, with its version,
// or one of NVML, which is bound when it is first called: any other would end the
// program then. No other program has one of NVML, though all are built with cgo here.
func TestSymbols(t *testing.T) {
	t.Parallel()
	nvmltest.Compiler(t)
	others := t.TempDir()
	build(t, others, "-s -w", "lathe", "lathe-score", "lathe-buffer", "lathe-rollout", "lathe-learn")
	programs, err := filepath.Glob(filepath.Join(others, "*"))
	if err != nil || len(programs) != 5 {
		t.Fatalf("%q, %v", programs, err)
	}
	own := buildMonitor(t)
	for _, path := range append(programs, own) {
		program, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		libraries, err := program.ImportedLibraries()
		if err != nil || strings.Contains(strings.Join(libraries, " "), "nvidia") {
			t.Errorf("%s is linked with %q, %v", filepath.Base(path), libraries, err)
		}
		symbols, err := program.ImportedSymbols() // those that are not weak
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			t.Fatal(err)
		}
		nvml := 0
		for _, symbol := range symbols {
			switch {
			case strings.HasPrefix(symbol.Version, "GLIBC_"):
			case strings.HasPrefix(symbol.Name, "nvml"):
				nvml++
			default:
				t.Errorf("%s wants %s, which no library has", filepath.Base(path), symbol.Name)
			}
		}
		if (nvml > 0) != (path == own) {
			t.Errorf("%s has %d symbols of NVML", filepath.Base(path), nvml)
		}
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
	for stay := time.Second; stay < time.Minute && len(got[monitor.UtilizationShare]) == 0; stay *= 2 {
		leave := monitor.Beside(run, "rollout-000001-00003", t.Logf)
		time.Sleep(stay)
		leave()
		got = monitortest.Samples(t, run)
	}
	if rows := got[monitor.UtilizationShare]; len(rows) == 0 || rows[0].Device != "GPU-aaaa" || rows[0].Value != 0.5 || rows[0].Task != "rollout-000001-00003" {
		t.Errorf("the samples are %+v", rows)
	}
	if rows := got[monitor.GPUProcessMemoryBytes]; len(rows) == 0 || rows[0].Value != 4 || rows[0].Detail != strconv.Itoa(self) {
		t.Errorf("the task's memory on the GPU is %+v", rows)
	}
}
