package mathverify_test

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// The answer is found in the response, whatever is written around it.
func ExampleVerify() {
	result := mathverify.Verify(`\frac{1}{2}`, `Half of them are left, so the answer is $\boxed{0.5}$.`, mathverify.DefaultOptions())
	fmt.Println(result.Equal, result.Extracted, result.Reason)
	// Output: true 0.5 equal
}

// A reference is parsed once for all responses of a group.
func ExampleReference_Verify() {
	reference := mathverify.NewReference(`\{-1, 3\}`)
	for _, response := range []string{`\boxed{\{3, -1\}}`, `\boxed{3}`, `I do not know.`} {
		result := reference.Verify(response, mathverify.DefaultOptions())
		fmt.Printf("%v, %s (%s)\n", result.Equal, result.Reason, result.Kind)
	}
	// Output:
	// true, equal (set)
	// false, not equal (set)
	// false, no answer (set)
}

// Presets give the results of versions of Math-Verify, whose i that stands
// apart is another symbol.
func ExamplePreset() {
	for _, name := range []string{"lathe", "math-verify-0.8"} {
		options, err := mathverify.Preset(name)
		if err != nil {
			panic(err)
		}
		fmt.Println(name, mathverify.Verify("1+2i", `\boxed{2 i + 1}`, options).Equal)
	}
	// Output:
	// lathe true
	// math-verify-0.8 false
}

// An explanation has the steps, which show the reference too: they are for
// people, and never for a policy.
func ExampleReference_Explain() {
	explanation := mathverify.NewReference("2x+2").Explain(`\boxed{2(x+1)}`, mathverify.DefaultOptions())
	for _, step := range explanation.Steps {
		fmt.Println(step)
	}
	// Output:
	// reference "2x+2": expression ((2*x) + 2)
	// response: one candidate
	// taken from boxed, bytes 0 to 14: "2(x+1)": expression (2*(x + 1))
	// residues modulo two primes: ((2*x) + 2) = (2*(x + 1))
}
