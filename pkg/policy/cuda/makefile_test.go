package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The library has code for the architectures that nvcc lists: each list is that of a release.
func TestArchitectures(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "cuda")
	if _, err := os.Stat(filepath.Join(folder, "Makefile")); err != nil {
		t.Skip("there are no sources of the CUDA engine here")
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	const sass = "arch=compute_80,code=sm_80 arch=compute_90,code=sm_90 "
	for _, c := range []struct {
		name, lists string
		sm90a       bool
		archs       string // given to make
		want        string
		hopper      string
	}{
		{"11.8", "35 37 50 52 53 60 61 62 70 72 75 80 86 87 89 90", false, "", sass + "arch=compute_90,code=compute_90", sass + "arch=compute_90,code=compute_90"},
		{"12.4", "50 52 53 60 61 62 70 72 75 80 86 87 89 90", true, "", sass + "arch=compute_90,code=compute_90", "arch=compute_90a,code=sm_90a"},
		{
			"12.8", "50 52 53 60 61 62 70 72 75 80 86 87 89 90 100 101 120", true, "",
			sass + "arch=compute_100,code=sm_100 arch=compute_120,code=sm_120 arch=compute_120,code=compute_120", "arch=compute_90a,code=sm_90a",
		},
		{
			"13", "75 80 86 87 88 89 90 100 103 110 120 121", true, "",
			sass + "arch=compute_100,code=sm_100 arch=compute_120,code=sm_120 arch=compute_120,code=compute_120", "arch=compute_90a,code=sm_90a",
		},
		{"a server's Blackwell alone", "80 90 100", true, "", sass + "arch=compute_100,code=sm_100 arch=compute_100,code=compute_100", "arch=compute_90a,code=sm_90a"},
		{"given", "80 90 100 120", true, "80", "arch=compute_80,code=sm_80 arch=compute_80,code=compute_80", "arch=compute_80,code=sm_80 arch=compute_80,code=compute_80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stand := t.TempDir()
			asked := filepath.Join(stand, "asked")
			script := "#!/bin/sh\ncase $1 in\n--list-gpu-arch) echo x >>" + asked + "; printf 'compute_%s\\n' " + c.lists + " ;;\n--help) echo sm_90"
			if c.sm90a {
				script += " sm_90a"
			}
			if err := os.WriteFile(filepath.Join(stand, "nvcc"), []byte(script+" ;;\nesac\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			plan := func(targets ...string) string {
				t.Helper()
				args := append([]string{"-n", "-C", folder, "NVCC=" + filepath.Join(stand, "nvcc"), "BUILD=" + stand + "/build"}, targets...)
				if c.archs != "" {
					args = append(args, "ARCHS="+c.archs)
				}
				out, err := exec.Command("make", args...).CombinedOutput()
				if err != nil {
					t.Fatalf("make: %v\n%s", err, out)
				}
				return string(out)
			}
			for file, want := range map[string]string{"optim.cu": c.want, "gemm_wgmma.cu": c.hopper} {
				var got []string
				for _, found := range regexp.MustCompile(`-gencode (\S+)`).FindAllStringSubmatch(plan(stand+"/build/gpu/"+file+".o"), -1) {
					got = append(got, found[1])
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%s is compiled for %s, want %s", file, strings.Join(got, " "), want)
				}
			}
			calls, _ := os.ReadFile(asked)
			if want := 2; c.archs == "" && len(calls) != 2*want || c.archs != "" && len(calls) > 0 { // once in each make
				t.Errorf("nvcc was asked for its list %d times in two calls of make", len(calls)/2)
			}
			plan("host")
			if again, _ := os.ReadFile(asked); len(again) != len(calls) {
				t.Error("nvcc is asked although nothing is compiled for a GPU")
			}
		})
	}
}
