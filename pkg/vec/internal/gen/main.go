// Command gen writes the assembly of package vec and its Go declarations.
//
// Usage: gen [directory], the directory of package vec by default.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

const declarationHeader = asm.Generated + `//go:build amd64 && !noasm

package vec

// The kernels take pointers to the first of n elements; n must not be zero.
// What they compute is defined by their pure Go twins.
`

const stubHeader = asm.Generated + `//go:build !amd64 || noasm

package vec

const badNoAssembly = "vec: no assembly in this build"
`

var targets = []target{
	{suffix: "AVX512", register: "Z", parts: 1, bytes: 64},
	{suffix: "AVX2", register: "Y", parts: 2, bytes: 32},
}

func main() { asm.Main(generate) }

// generate makes the files by name.
func generate() (map[string][]byte, error) {
	declarations, stubs := bytes.NewBufferString(declarationHeader), bytes.NewBufferString(stubHeader)
	files := make(map[string][]byte)
	for _, t := range targets {
		assembly := asm.NewFile("textflag.h")
		writeConstants(assembly)
		for _, s := range signatures {
			writeKernel(assembly, t, s)
			declaration := fmt.Sprintf("func %s%s(%s) %s", s.name, t.suffix, s.params, s.result)
			fmt.Fprintf(declarations, "\n//go:noescape\n%s\n", declaration)
			fmt.Fprintf(stubs, "\n%s { panic(badNoAssembly) }\n", blankParams(declaration))
		}
		files["kernels_"+strings.ToLower(t.suffix)+"_amd64.s"] = assembly.Bytes()
	}
	var err error
	if files["kernels_amd64.go"], err = format.Source(declarations.Bytes()); err != nil {
		return nil, fmt.Errorf("formatting declarations: %w", err)
	}
	if files["kernels_other.go"], err = format.Source(stubs.Bytes()); err != nil {
		return nil, fmt.Errorf("formatting stubs: %w", err)
	}
	return files, nil
}

// blankParams replaces the parameter names of a declaration by blanks.
func blankParams(declaration string) string {
	open := strings.IndexByte(declaration, '(') + 1
	end := strings.IndexByte(declaration, ')')
	fields := strings.Split(declaration[open:end], ", ")
	for i, field := range fields {
		if _, typ, ok := strings.Cut(field, " "); ok {
			fields[i] = "_ " + typ
		} else {
			fields[i] = "_"
		}
	}
	return declaration[:open] + strings.Join(fields, ", ") + declaration[end:]
}
