//go:build cgo && linux

package cuda

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// compiled makes a library of C source.
func compiled(t *testing.T, source string) string {
	t.Helper()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	folder := t.TempDir()
	path, library := filepath.Join(folder, "engine.c"), filepath.Join(folder, libraryName)
	if err := os.WriteFile(path, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-I", here, "-o", library, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}

// stubs defines every function of engine.h but those that a test defines
// itself, by name without eng_.
func stubs(own string, without ...string) string {
	functions := map[string]string{
		"abi":            "int32_t eng_abi(void) { return ENG_ABI; }",
		"error":          `const char *eng_error(const eng *e) { return e ? "of an engine" : "of no engine"; }`,
		"describe":       "int32_t eng_describe(int32_t device, eng_device *d) { d->free_bytes = (int64_t)1 << 40; return 0; }",
		"open":           "int32_t eng_open(int32_t device, const eng_config *c, eng **out) { static int it; *out = (eng *)&it; return 0; }",
		"close":          "void eng_close(eng *e) {}",
		"put":            "int32_t eng_put(eng *e, int32_t r, int32_t l, int32_t k, int64_t o, int64_t n, const float *v) { return 0; }",
		"get":            "int32_t eng_get(eng *e, int32_t r, int32_t l, int32_t k, int64_t o, int64_t n, float *v) { return 0; }",
		"forward":        "int32_t eng_forward(eng *e, const eng_batch *b, const eng_sampling *s, int32_t k, float *l, float *h, float *v) { return ENG_DEVICE; }",
		"backward":       "int32_t eng_backward(eng *e, const float *l, const float *h, const float *v) { return 0; }",
		"zero_gradients": "int32_t eng_zero_gradients(eng *e) { return ENG_DEVICE; }",
		"hold_gradients": "int32_t eng_hold_gradients(eng *e, int32_t s) { return 0; }",
		"add_gradients":  "int32_t eng_add_gradients(eng *e, int32_t s) { return 0; }",
		"step":           "int32_t eng_step(eng *e, const eng_adamw *a, eng_step_stats *s) { return 0; }",
		"adapter":        "int32_t eng_adapter(eng *e, int32_t on) { return 0; }",
		"prefill":        "int32_t eng_prefill(eng *e, int32_t n, const eng_prompt *p) { return 0; }",
		"copy_page":      "int32_t eng_copy_page(eng *e, int32_t from, int32_t to) { return 0; }",
		"pages":          "int32_t eng_pages(eng *e, int32_t slot, int32_t first, int32_t n, const int32_t *p) { return 0; }",
		"start":          "int32_t eng_start(eng *e, int32_t n, const eng_request *r) { return 0; }",
		"stop":           "int32_t eng_stop(eng *e, int32_t slot) { return 0; }",
		"decode":         "int32_t eng_decode(eng *e, int32_t n, int32_t *t, float *l, int32_t *c, uint8_t *s) { return 0; }",
		"get_stats":      "int32_t eng_get_stats(eng *e, eng_stats *s) { return 0; }",
	}
	for _, name := range without {
		delete(functions, name)
	}
	source := "#include \"engine.h\"\n#include <stddef.h>\n"
	for _, function := range functions {
		source += function + "\n"
	}
	return source + own
}

func openOn(t *testing.T, library string, options Options) (*Engine, error) {
	t.Helper()
	c := fakeConfig()
	weights, err := policy.Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	options.Library = library
	return New(policy.InMemory(c, weights), options)
}

// Every way in which a library cannot serve is exit code 69, with the reason
// and what to do.
func TestLibrariesThatCannotServe(t *testing.T) {
	notALibrary := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(notALibrary, []byte("no library"), 0o666); err != nil {
		t.Fatal(err)
	}
	status := func(function, status, words string) string {
		signature := map[string]string{
			"describe": "int32_t eng_describe(int32_t device, eng_device *d)",
			"open":     "int32_t eng_open(int32_t device, const eng_config *c, eng **out)",
		}[function]
		return stubs(signature+" { return "+status+"; }\nconst char *eng_error(const eng *e) { return \""+words+"\"; }", function, "error")
	}
	for name, test := range map[string]struct {
		library string // a file, or
		source  string
		options Options
		words   []string
	}{
		"no file":             {library: "/nowhere/at/all.so", words: []string{"/nowhere/at/all.so"}},
		"no library":          {library: notALibrary, words: []string{"text.so"}},
		"another ABI":         {source: "#include <stdint.h>\nint32_t eng_abi(void) { return 999; }", words: []string{"version 999", "version 8"}},
		"the ABI before this": {source: "#include <stdint.h>\nint32_t eng_abi(void) { return 7; }", words: []string{"version 7 of", "version 8"}},
		"no ABI":              {source: "int anything;", words: []string{"eng_abi"}},
		"a function less":     {source: stubs("", "decode"), words: []string{"eng_decode"}},
		"no driver":           {source: status("describe", "ENG_NO_DRIVER", "CUDA driver version is insufficient"), words: []string{"no usable NVIDIA driver", "insufficient"}},
		"no device":           {source: status("describe", "ENG_NO_DEVICE", "no CUDA-capable device"), words: []string{"no usable GPU", "no CUDA-capable device"}},
		"no fourth device":    {source: status("describe", "ENG_NO_DEVICE", "device 3 of 1"), options: Options{Device: 3}, words: []string{"no usable GPU", "device 3 of 1"}},
		"too old a device":    {source: status("open", "ENG_NO_DEVICE", "compute capability 7.0, 8.0 is needed"), words: []string{"7.0"}},
		"memory at opening":   {source: status("open", "ENG_MEMORY", "12.5 GiB are needed, 3.0 GiB are free"), words: []string{"12.5 GiB", "3.0 GiB"}},
		"memory before opening": {
			source: stubs("int32_t eng_describe(int32_t device, eng_device *d) { d->free_bytes = 1 << 20; return 0; }", "describe"),
			words:  []string{"needs at least", "1.0 MiB are free"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			library := test.library
			if test.source != "" {
				library = compiled(t, test.source)
			}
			_, err := openOn(t, library, test.options)
			if exitcode.Code(err) != exitcode.Unavailable {
				t.Fatalf("code %d (%v), want %d", exitcode.Code(err), err, exitcode.Unavailable)
			}
			for _, words := range test.words {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q does not say %q", err, words)
				}
			}
			if len(exitcode.Hints(err)) == 0 {
				t.Errorf("%q has no hint", err)
			}
		})
	}
}

// Two builds of the library are two engines, wherever their files lie.
func TestArithmeticNamesTheBuild(t *testing.T) {
	one, other := compiled(t, stubs("")), compiled(t, stubs("int another_build = 1;"))
	moved := filepath.Join(t.TempDir(), "moved.so")
	content, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(moved, content, 0o777); err != nil {
		t.Fatal(err)
	}
	of := func(library string) policy.Arithmetic {
		t.Helper()
		t.Setenv(libraryVariable, library)
		a, err := Arithmetic()
		if err != nil {
			t.Fatal(err)
		}
		e, err := openOn(t, "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if e.Arithmetic() != a {
			t.Errorf("an engine says %+v, and before it is open %+v", e.Arithmetic(), a)
		}
		return a
	}
	want := of(one)
	if digest := fmt.Sprintf("%x", sha256.Sum256(content)); want.Library != digest {
		t.Errorf("the library is %q, its SHA-256 %s", want.Library, digest)
	}
	if got := of(other); got == want {
		t.Errorf("two builds are the same engine: %+v", got)
	}
	if got := of(moved); got != want {
		t.Errorf("a copy of the library is another engine: %+v, want %+v", got, want)
	}
}

// A device that breaks down within a method that returns no error is told of by
// Err and by what comes next.
func TestErrIsKept(t *testing.T) {
	e, err := openOn(t, compiled(t, stubs("")), Options{Train: true})
	if err != nil {
		t.Fatal(err)
	}
	batch := policy.Batch{TokenIDs: []int32{1, 2}, Targets: []bool{false, true}, Offsets: []int32{0, 2}}
	if err := e.Forward(batch, policy.Sampling{}, make([]float32, 2), make([]float32, 2)); exitcode.Code(err) != exitcode.Failed || !strings.Contains(err.Error(), "of an engine") {
		t.Errorf("a pass that fails: %v", err)
	}
	if err := e.Err(); err != nil {
		t.Errorf("Err before anything failed silently: %v", err)
	}
	e.ZeroGradients()
	if err := e.Err(); exitcode.Code(err) != exitcode.Failed {
		t.Errorf("Err: %v", err)
	}
	if _, err := e.Step(policy.AdamW{}); exitcode.Code(err) != exitcode.Failed {
		t.Errorf("a step after a failure: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// Memory that runs out in a pass, for another process has taken it, is told as
// such, and the engine is done for.
func TestMemoryThatRunsOut(t *testing.T) {
	library := compiled(t, stubs(`int32_t eng_backward(eng *e, const float *l, const float *h, const float *v) { return ENG_MEMORY; }
int32_t eng_forward(eng *e, const eng_batch *b, const eng_sampling *s, int32_t k, float *l, float *h, float *v) { return ENG_OK; }`, "forward", "backward"))
	e, err := openOn(t, library, Options{Train: true})
	if err != nil {
		t.Fatal(err)
	}
	batch := policy.Batch{TokenIDs: []int32{1, 2}, Targets: []bool{false, true}, Offsets: []int32{0, 2}}
	if err := e.Forward(batch, policy.Sampling{}, make([]float32, 2), make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	err = e.Backward(policy.Coefficients{LogProb: make([]float32, 2)})
	if exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "too little memory") || len(exitcode.Hints(err)) == 0 {
		t.Errorf("a backward pass without memory: %v", err)
	}
}

func TestSearch(t *testing.T) {
	folder := t.TempDir()
	bin, lib := filepath.Join(folder, "bin"), filepath.Join(folder, "lib")
	for _, path := range []string{bin, lib} {
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(bin, "lathe-learn")
	if _, err := find(candidates("", binary)); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("nowhere: %v", err)
	}
	for _, want := range []string{filepath.Join(lib, libraryName), filepath.Join(bin, libraryName)} {
		if err := os.WriteFile(want, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := find(candidates("", binary)); err != nil || got != want {
			t.Errorf("found %q (%v), want %q", got, err, want)
		}
	}
	if _, err := find(candidates(filepath.Join(folder, "named.so"), binary)); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("a file that the environment names and that is not there: %v", err)
	}
}

// One engine of each type of weights that a folder may have.
func TestTypes(t *testing.T) {
	c := fakeConfig()
	weights, err := policy.Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	weights[1].DType = "BF16"
	if _, err := newShape(policy.InMemory(c, weights), Options{}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("two types: %v", err)
	}
	if s, err := newShape(policy.InMemory(c, weights), Options{DType: "BF16"}); err != nil || s.dtype != bfloat16Type {
		t.Errorf("rounded to one: %+v, %v", s, err)
	}
	if _, err := newShape(policy.InMemory(c, weights), Options{DType: "F16"}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("float16: %v", err)
	}
}
