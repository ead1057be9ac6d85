package sandbox

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Warm is a Python interpreter that has imported modules, and runs programs in
// processes that are forked from it: each in a sandbox of its own, which is built
// after the fork by the same plan as that of [Run], before anything of the program's
// runs. No program reaches the interpreter, nor another program.
//
// What differs from a new interpreter: the modules are there, with all that they
// need, and what they have read of the environment when they were imported, such as
// numbers of threads, is that of Env; and so is the seed of hashes. The zero value
// is to be started.
type Warm struct {
	// Env is the environment in which modules are imported. PYTHONHASHSEED is 0
	// unless it says otherwise.
	Env []string

	interpreter string
	protection  Protection
	server      *server
}

//go:embed warm.py
var warmScript string

// Start starts an interpreter, a path, and imports modules, by their names. A
// context that ends before ends it.
func (w *Warm) Start(ctx context.Context, interpreter string, modules []string) error {
	if modules == nil {
		modules = []string{}
	}
	list, err := json.Marshal(modules)
	if err != nil {
		return exitcode.Bugf("encoding modules: %w", err)
	}
	env := slices.Clone(w.Env)
	if variable(env, "PYTHONHASHSEED") == "" {
		env = append(env, "PYTHONHASHSEED=0")
	}
	w.Env, w.interpreter, w.protection = env, interpreter, Probe()
	w.server, err = startServer(ctx, serverOrders{[]string{interpreter, "-s", "-c", warmScript, string(list)}, env})
	if err != nil {
		return fmt.Errorf("starting the interpreter %q: %w", interpreter, err)
	}
	return w.try(ctx)
}

// try sees what protection its programs have, by running one that does nothing.
func (w *Warm) try(ctx context.Context) error {
	nothing := Program{Args: []string{w.interpreter, "-c", ""}, Limits: Limits{Wall: time.Minute}}
	_, err := w.Run(ctx, nothing)
	if err != nil && ctx.Err() == nil && w.protection.Namespaces != nil {
		p := w.protection
		p.Namespaces, p.Reasons = nil, map[string]string{"namespaces": err.Error()}
		w.protection = p
		_, err = w.Run(ctx, nothing)
	}
	if err != nil {
		w.Close()
	}
	return err
}

// Protection is what its programs have.
func (w *Warm) Protection() Protection { return w.protection }

// Close ends the interpreter and all programs that it runs. One that was not
// started is closed.
func (w *Warm) Close() {
	if w.server != nil {
		w.server.close()
	}
}

// variable is the value of a variable of an environment, "" if it is not there.
func variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Run runs a program as the function [Run] does. It is the interpreter's, with a
// file, or with -c and a text, and what arguments it has. Several may run at once.
func (w *Warm) Run(ctx context.Context, p Program) (Result, error) {
	if p.protection == nil {
		p.protection = &w.protection
	}
	r, pl, err := prepare(&p)
	if err != nil {
		return r, err
	}
	if p.Root != "" {
		return r, exitcode.Usagef("warm interpreter: got a program with the root %q, want none: it runs where its interpreter does", p.Root)
	}
	if len(p.Args) < 2 || p.Args[0] != w.interpreter || p.Args[1] == "-c" && len(p.Args) < 3 || p.Args[1] != "-c" && strings.HasPrefix(p.Args[1], "-") {
		return r, exitcode.Usagef("warm interpreter %q: got arguments %q, want a file, or -c and a text", w.interpreter, p.Args)
	}
	if seed, own := variable(p.Env, "PYTHONHASHSEED"), variable(w.Env, "PYTHONHASHSEED"); cmp.Or(seed, own) != own {
		return r, exitcode.Usagef("warm interpreter: got a program for PYTHONHASHSEED=%s, want %s", seed, own)
	}
	return r, w.server.run(ctx, &p, pl, &r)
}
