package task

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// SandboxOptions are those of lathe-score sandbox.
type SandboxOptions struct {
	Require []string // names of protections
	JSON    bool
}

func sandboxCommand() *cli.Command {
	var o SandboxOptions
	return cmdline.Help{
		Example: "lathe-score sandbox --require files,network",
		Exits:   map[int]string{exitcode.Unavailable: "this host lacks a required protection"},
	}.Command(&cli.Command{
		Name:  "sandbox",
		Usage: "print which sandbox protections this host provides",
		Description: "Builds real sandboxes without a program and reports each missing protection with the reason. Compute\n" +
			"nodes may differ from login nodes: run it where tasks run.",
		Flags: []cli.Flag{
			cmdline.ListFlag("require", "fail unless the host provides `PROTECTIONS`: "+strings.Join(sandbox.Names(), ", "), &o.Require),
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PrintSandbox(c.App.Writer, o) }),
	})
}

// protections are what a host gives, with the names of what is in force.
type protections struct {
	sandbox.Protection
	InForce []string `json:"in_force"`
	Missing []string `json:"missing"`
}

// PrintSandbox prints what protection this host gives to programs, and fails where
// it is not what is required.
func PrintSandbox(out io.Writer, o SandboxOptions) error {
	p := sandbox.Probe()
	answer := protections{p, []string{}, p.Missing(sandbox.Names())}
	for _, name := range sandbox.Names() {
		if p.Has(name) {
			answer.InForce = append(answer.InForce, name)
		}
	}
	if o.JSON {
		if err := cmdline.WriteJSON(out, answer); err != nil {
			return err
		}
		return p.Require(o.Require)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range sandbox.Names() {
		state := "missing"
		if p.Has(name) {
			state = "provided"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", name, state, sandbox.Meaning(name))
	}
	if err := table.Flush(); err != nil {
		return exitcode.IOf("print: %w", err)
	}
	text := fmt.Sprintf("\nLandlock %d, namespaces: %s; memory by %s\n", p.Landlock, strings.Join(p.Namespaces, " "), p.MemoryBy)
	for _, name := range slices.Sorted(maps.Keys(p.Reasons)) {
		text += fmt.Sprintf("no %s: %s\n", name, p.Reasons[name])
	}
	if _, err := io.WriteString(out, text); err != nil {
		return exitcode.IOf("print: %w", err)
	}
	return p.Require(o.Require)
}
