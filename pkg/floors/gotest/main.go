// Command gotest runs go test with the arguments behind --, shows what go test
// shows, and looks after two rules that go test does not know: a test that
// skips must be in a list with its reason, and tests leave nothing in the
// temporary folder. Its exit code is that of go test, or 1 where a rule is
// broken.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	list := flag.String("skips", ".ci/skips.txt", "`FILE` with the tests that may skip: package, test and a part of the reason, one a line")
	flag.Parse()
	code, err := run(*list, flag.Args(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
