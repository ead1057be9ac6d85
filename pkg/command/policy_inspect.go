package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gguf/folder"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// PolicyInspectOptions are those of lathe policy inspect.
type PolicyInspectOptions struct {
	Model string // folder
	JSON  bool
	// GPU is the free memory of a GPU whose use is planned, such as 75GiB, or
	// auto for the GPU of this host; empty plans nothing. Recipe, Set and
	// Tokens say what it plans for.
	GPU string
	CPU bool // plan the memory of tasks that train on the CPU
	RecipeOptions
	Tokens int // of the longest sequence that is learned from; 0 is as many as the policy takes
}

func policyInspectCommand() *cli.Command {
	var o PolicyInspectOptions
	return cmdline.Help{
		Example: "lathe policy inspect --model runs/quickstart/policy/v000000 --gpu 75GiB --recipe jobs/quickstart.yaml",
		Exits:   map[int]string{exitcode.Data: "", exitcode.Unavailable: "--gpu auto found no GPU"},
	}.Command(&cli.Command{
		Name: "inspect", Usage: "print a policy's shape, size, memory, compute per token and digest",
		Flags: []cli.Flag{
			modelFlag(&o.Model), cmdline.JSONFlag(&o.JSON),
			&cli.StringFlag{Name: "gpu", Usage: "plan GPU memory for this amount of free memory: `BYTES|auto`, such as 80e9, 80GB or 75GiB; auto reads it from this host's GPU", Destination: &o.GPU},
			&cli.BoolFlag{Name: "cpu", Usage: "plan the memory of tasks that train on the CPU", Destination: &o.CPU},
			&cli.StringFlag{Name: "recipe", Usage: "with --gpu or --cpu: plan for the settings of `RECIPE`; default: full training in the policy's own type", Destination: &o.Recipe},
			cmdline.SetFlag(&o.Set),
			&cli.IntFlag{Name: "tokens", Usage: "with --gpu or --cpu: longest training sequence in `TOKENS`; 0 means the policy's context, or with --cpu what the recipe bounds", Destination: &o.Tokens},
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyInspect(c.Context, c.App.Writer, o) }),
	})
}

// inspection is what lathe policy inspect prints.
type inspection struct {
	Folder        string                    `json:"folder"`
	Family        string                    `json:"family"`
	Architecture  string                    `json:"architecture"`
	Parameters    int                       `json:"parameters"`
	VocabSize     int                       `json:"vocab_size"`
	HiddenSize    int                       `json:"hidden_size"`
	Layers        int                       `json:"num_hidden_layers"`
	Heads         int                       `json:"num_attention_heads"`
	KeyValueHeads int                       `json:"num_key_value_heads"`
	MaxTokens     int                       `json:"max_position_embeddings"`
	Tied          bool                      `json:"tie_word_embeddings"`
	Parts         []policy.Part             `json:"parts,omitempty"` // what its family adds to Llama
	Files         int                       `json:"files"`
	Stored        map[safetensors.DType]int `json:"parameters_by_dtype"`
	WeightBytes   int64                     `json:"weight_bytes"`
	Memory        []policy.Memory           `json:"memory"`
	FLOPs         []checkpoint.FLOPs        `json:"flops_per_token"`
	SHA256        string                    `json:"model_sha256"`
	Adapter       *adapterInspection        `json:"adapter"` // null unless the folder is an adapter's; all else is its base's
	GPU           *gpuPlans                 `json:"gpu"`     // null without --gpu
	CPU           *cpuPlans                 `json:"cpu"`     // null without --cpu
	Source        *folder.Source            `json:"source"`  // null unless the weights, or those that they were trained from, were imported
	MadeBy        *madeBy                   `json:"made_by"` // null unless one of our engines trained it in a run
}

// madeBy is what computed a policy's weights, by its manifest.
type madeBy struct {
	policy.Arithmetic
	Unit string `json:"unit,omitempty"` // of a CPU: amx, avx512, avx2 or go
}

func (m madeBy) String() string { return strings.TrimSpace(m.Arithmetic.String() + " " + m.Unit) }

type adapterInspection struct {
	Base       string   `json:"base"`
	Rank       int      `json:"rank"`
	Alpha      float64  `json:"alpha"`
	Targets    []string `json:"targets"`
	Parameters int      `json:"parameters"`
}

// inspectAdapter describes an adapter; nil for the folder of a whole policy.
// base is the folder of the policy that it adapts, or the folder itself.
func inspectAdapter(folder string) (found *adapterInspection, base string, err error) {
	is, err := checkpoint.IsAdapter(folder)
	if err != nil || !is {
		return nil, folder, err
	}
	base, config, err := checkpoint.AdaptedConfig(folder, "")
	if err != nil {
		return nil, "", err
	}
	a, err := checkpoint.LoadAdapter(folder, config, false)
	if err != nil {
		return nil, "", err
	}
	found = &adapterInspection{Base: base, Rank: a.Rank, Alpha: a.Alpha, Targets: a.Targets}
	for _, t := range a.Tensors {
		found.Parameters += t.Elements()
	}
	return found, base, nil
}

// PolicyInspect prints the shape, size, memory, work and digest of a policy.
func PolicyInspect(ctx context.Context, out io.Writer, o PolicyInspectOptions) error {
	if err := cmdline.Required("model", o.Model); err != nil {
		return err
	}
	adapter, base, err := inspectAdapter(o.Model)
	if err != nil {
		return err
	}
	if err := plain.CheckPolicy(base); err != nil {
		return err
	}
	found, err := checkpoint.Inspect(base)
	if err != nil {
		return err
	}
	x := inspection{
		Adapter: adapter, Folder: found.Folder, Family: found.Family, Architecture: string(found.Config.Architecture), Parameters: found.Parameters,
		VocabSize: found.Config.VocabSize, HiddenSize: found.Config.HiddenSize, Layers: found.Config.NumHiddenLayers,
		Heads: found.Config.NumAttentionHeads, KeyValueHeads: found.Config.NumKeyValueHeads,
		MaxTokens: found.Config.MaxPositionEmbeddings, Tied: found.Config.TieWordEmbeddings, Parts: found.Config.Parts(),
		Files: found.Files, Stored: found.Stored, WeightBytes: found.WeightBytes, Memory: found.Memory, FLOPs: found.FLOPs, SHA256: found.SHA256,
	}
	if x.Source, err = folder.ReadSource(base); err != nil {
		return err
	}
	if x.MadeBy, err = whatMade(ctx, o.Model); err != nil {
		return err
	}
	if x.GPU, x.CPU, err = o.plan(found.Config, found.Stored); err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, x)
	}
	printInspection(out, x)
	if x.CPU != nil {
		if err := printCPU(out, x.CPU); err != nil {
			return err
		}
	}
	if x.GPU == nil {
		return nil
	}
	return printPlans(out, x.GPU)
}

// whatMade is what computed the weights of a folder; nil where no manifest says it.
func whatMade(ctx context.Context, folder string) (*madeBy, error) {
	m, sealed, err := seal.Check(ctx, folder, seal.Options{})
	if err != nil || !sealed {
		return nil, err
	}
	engine, noted, err := stage.EngineOf(m)
	if err != nil || !noted {
		return nil, err
	}
	unit, err := stage.UnitOf(m)
	return &madeBy{engine, unit}, err
}

func printInspection(w io.Writer, x inspection) {
	megabytes := func(n int64) float64 { return float64(n) / 1e6 }
	if x.Adapter != nil {
		fmt.Fprintf(w, "adapter of %s: rank %d, alpha %g, %d parameters in %s; its base:\n",
			x.Adapter.Base, x.Adapter.Rank, x.Adapter.Alpha, x.Adapter.Parameters, strings.Join(x.Adapter.Targets, " "))
	}
	fmt.Fprintf(w, "%s: %s, %d parameters\n", x.Folder, x.Architecture, x.Parameters)
	fmt.Fprintf(w, "  %s, hidden %d, %s over %d, vocabulary %d, up to %d tokens, tied head: %v\n",
		plural.Count(x.Layers, "layer"), x.HiddenSize, plural.Count(x.Heads, "head"), x.KeyValueHeads, x.VocabSize, x.MaxTokens, x.Tied)
	for i, part := range x.Parts {
		lead := "with"
		if i > 0 {
			lead = "    "
		}
		fmt.Fprintf(w, "  %s %s\n", lead, part)
	}
	fmt.Fprintf(w, "  %.1f MB of weights on disk (files: %d)\n", megabytes(x.WeightBytes), x.Files)
	fmt.Fprintf(w, "  memory in MB    weights  to train (masters, gradients, moments)  KV per 1000 tokens  activations per 1000 tokens (least)\n")
	for _, m := range x.Memory {
		fmt.Fprintf(w, "  %-13s %9.1f  %38.1f  %18.2f  %10.1f (%.1f)\n",
			m.DType, megabytes(m.WeightBytes), megabytes(m.TrainBytes), megabytes(1000*m.KVBytes), megabytes(1000*m.KeptBytes), megabytes(1000*m.RecomputeBytes))
	}
	for _, f := range x.FLOPs {
		fmt.Fprintf(w, "  MFLOP per token of %d: %.2f trained, %.2f forward, %.2f decoded last\n",
			f.SequenceTokens, f.Train/1e6, f.Forward/1e6, f.Decode/1e6)
	}
	fmt.Fprintf(w, "  sha256 of the weights %s\n", x.SHA256)
	if x.MadeBy != nil {
		fmt.Fprintf(w, "  made by %s\n", x.MadeBy)
	}
	if s := x.Source; s != nil {
		since := ""
		if s.ModelSHA256 != x.SHA256 {
			since = "; the weights have changed since"
		}
		fmt.Fprintf(w, "  imported from %s (%s, %s, %s) as %s%s\n  sha256 of that file %s\n", s.File, s.Format, s.Architecture, s.Type, s.DType, since, s.SHA256)
	}
}
