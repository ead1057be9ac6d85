package vec

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestLengthPanics(t *testing.T) {
	t.Parallel()
	x := func(n int) []float32 { return make([]float32, n) }
	for _, c := range []struct {
		name, want string
		f          func()
	}{
		{"Add", badLength, func() { Add(x(3), x(3), x(2)) }},
		{"Mul", badLength, func() { Mul(x(3), x(2), x(3)) }},
		{"AXPY", badLength, func() { AXPY(x(3), 1, x(2)) }},
		{"Scale", badLength, func() { Scale(x(0), 1, x(2)) }},
		{"Dot", badLength, func() { Dot(x(3), x(2)) }},
		{"ExpShiftSum", badLength, func() { ExpShiftSum(x(3), x(4), 1, 0) }},
		{"SwiGLU", badLength, func() { SwiGLU(x(3), x(3), x(4)) }},
		{"SwiGLUGrad", badLength, func() { SwiGLUGrad(x(3), x(3), x(3), x(3), x(4)) }},
		{"RMSNorm", badLength, func() { RMSNorm(x(3), x(3), x(4), 1e-6) }},
		{"RMSNormGrad", badLength, func() { RMSNormGrad(x(3), x(4), x(3), x(3), x(3), 1, false) }},
		{"RoPE", badRotary, func() { RoPE(x(10), x(4), x(4)) }},
		{"RoPE angles", badLength, func() { RoPE(x(8), x(4), x(3)) }},
		{"RoPEGrad", badRotary, func() { RoPEGrad(x(8), x(0), x(0)) }},
		{"SoftmaxGrad", badLength, func() { SoftmaxGrad(x(3), x(3), x(4), 0, 1) }},
		{"WidenBF16", badLength, func() { WidenBF16(x(3), make([]uint16, 2)) }},
		{"RoundBF16", badLength, func() { RoundBF16(make([]uint16, 3), x(4)) }},
		{"RoundBF16Randomly", badLength, func() { RoundBF16Randomly(make([]uint16, 3), x(3), make([]uint16, 2)) }},
		{"AdamW", badLength, func() { AdamW(x(3), x(3), x(3), x(4), adamWParams) }},
	} {
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("%s: panic %v, want %q", c.name, got, c.want)
				}
			}()
			c.f()
		}()
	}
}

// TestISAFromEnvironment runs itself with LATHE_ISA set and looks at what the
// child reports.
func TestISAFromEnvironment(t *testing.T) {
	t.Parallel()
	const childVariable = "VEC_TEST_CHILD"
	if os.Getenv(childVariable) != "" {
		t.Logf("child: %v %v", Active(), StartError())
		return
	}
	widestName := widest().String()
	cases := map[string]string{
		"":        "child: " + widestName + " <nil>",
		"go":      "child: go <nil>",
		"mmx":     `child: ` + widestName + ` reading LATHE_ISA: unknown instruction set "mmx"`,
		"unknown": `child: ` + widestName + ` reading LATHE_ISA: unknown instruction set "unknown"`,
	}
	for _, name := range AvailableISAs() {
		cases[name] = "child: " + name + " <nil>"
	}
	for value, want := range cases {
		child := exec.Command(os.Args[0], "-test.run=^TestISAFromEnvironment$", "-test.v")
		child.Env = append(os.Environ(), childVariable+"=1", isaVariable+"="+value)
		output, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(output), want) {
			t.Errorf("with %s=%q: error %v, output %s, want %q", isaVariable, value, err, output, want)
		}
	}
}
