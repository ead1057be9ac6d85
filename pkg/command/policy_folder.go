package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env/choose"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// dtypes are the types of weights by their names in recipes and in PyTorch.
var dtypes = map[string]safetensors.DType{
	"float32": safetensors.F32, "float16": safetensors.F16, "bfloat16": safetensors.BF16,
}

// dtypeOf reads --dtype; the empty type stands for none given.
func dtypeOf(c *cli.Context) (safetensors.DType, error) {
	name := c.String("dtype")
	if name == "" {
		return "", nil
	}
	d, ok := dtypes[name]
	if !ok {
		return "", exitcode.Usagef("--dtype is %q; it must be float32, float16 or bfloat16", name)
	}
	return d, nil
}

// newFolder makes a folder under its final name once write has filled it.
func newFolder(path string, write func(folder string) error) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return exitcode.Usagef("--out %q is there already", path)
	}
	w, err := seal.CreateFolder(path, seal.AttemptFromEnv())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if err := write(w.Path()); err != nil {
		return err
	}
	return w.Place()
}

// printDigest ends a command that made a policy folder.
func printDigest(folder string) error {
	digest, err := checkpoint.Digest(folder)
	if err == nil {
		fmt.Fprintln(stdout, folder, digest)
	}
	return err
}

func policyInit(c *cli.Context) error {
	values, err := need(c, "out")
	if err != nil {
		return err
	}
	if (c.String("recipe") == "") == (c.String("config") == "") {
		return exitcode.Usagef("one of --recipe and --config must be given")
	}
	if err := exclusive(c, [2]string{"config", "set"}); err != nil {
		return err
	}
	write := func(folder string) error { return initFromRecipe(c, folder) }
	if c.String("config") != "" {
		write = func(folder string) error { return initFromConfig(c, folder) }
	}
	if err := newFolder(values["out"], write); err != nil {
		return err
	}
	return printDigest(values["out"])
}

func initFromRecipe(c *cli.Context, folder string) error {
	settings, err := initSettings(c)
	if err != nil {
		return err
	}
	resolved, err := recipe.Load(c.String("recipe"), settings)
	if err != nil {
		return err
	}
	if resolved.Recipe.Policy.New == nil {
		return exitcode.Usagef("recipe %q names a policy folder: there is nothing to make", c.String("recipe"))
	}
	world, err := choose.New(&resolved.Recipe, filepath.Dir(resolved.Path))
	if err != nil {
		return err
	}
	return warm.InitPolicy(resolved.Recipe, world, folder)
}

// initSettings are the recipe settings of lathe policy init, with those that
// have flags of their own.
func initSettings(c *cli.Context) ([]string, error) {
	settings := slices.Clone(c.StringSlice("set"))
	if c.IsSet("seed") {
		settings = append(settings, fmt.Sprintf("seed=%d", c.Uint64("seed")))
	}
	d, err := dtypeOf(c)
	switch {
	case err != nil || d == "":
		return settings, err
	case d == safetensors.F16:
		return nil, exitcode.WithHint(exitcode.Usagef("--dtype is %q; with --recipe it must be float32 or bfloat16", c.String("dtype")),
			"lathe policy convert writes a policy in another type")
	}
	return append(settings, "policy.dtype="+c.String("dtype")), nil
}

// initFromConfig draws weights in the shape of a config.json. If --config names
// a folder, its tokenizer and other files are copied.
func initFromConfig(c *cli.Context, folder string) error {
	path := c.String("config")
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	from := path
	if !info.IsDir() {
		if filepath.Base(path) != checkpoint.ConfigFile {
			return exitcode.Usagef("--config is %q; it must be a %s or the folder that holds one", path, checkpoint.ConfigFile)
		}
		from = filepath.Dir(path)
	}
	d, err := dtypeOf(c)
	if err != nil {
		return err
	}
	config, err := checkpoint.LoadConfig(from)
	if err != nil {
		return err
	}
	tensors, err := policy.Init(config, c.Uint64("seed"))
	if err != nil {
		return err
	}
	for i := range tensors {
		tensors[i].DType = d
	}
	if err := checkpoint.Save(folder, config, tensors); err != nil || !info.IsDir() {
		return err
	}
	return checkpoint.CarryFiles(folder, from)
}

func policyConvert(c *cli.Context) error {
	values, err := need(c, "model", "out")
	if err != nil {
		return err
	}
	d, err := dtypeOf(c)
	if err != nil {
		return err
	}
	if err := checkPolicy(values["model"]); err != nil {
		return err
	}
	const bytesPerMB = 1_000_000
	if c.Int64("max-file-mb") < 0 || c.Int64("max-file-mb") > 1<<40/bytesPerMB {
		return exitcode.Usagef("--max-file-mb is %d; it must be 0 or more", c.Int64("max-file-mb"))
	}
	err = newFolder(values["out"], func(folder string) error {
		return checkpoint.Convert(values["model"], folder, d, c.Int64("max-file-mb")*bytesPerMB)
	})
	if err != nil {
		return err
	}
	return printDigest(values["out"])
}

func policyMerge(c *cli.Context) error {
	values, err := need(c, "model", "out")
	if err != nil {
		return err
	}
	err = newFolder(values["out"], func(folder string) error { return checkpoint.Merge(values["model"], c.String("base"), folder) })
	if err != nil {
		return err
	}
	return printDigest(values["out"])
}

// maxDifferences is the number of tensors that lathe policy diff prints; all
// are in its JSON.
const maxDifferences = 20

func policyDiff(c *cli.Context) error {
	if c.NArg() != 2 {
		return withHelp(c, exitcode.Usagef("two policy folders must be given"))
	}
	a, b := c.Args().Get(0), c.Args().Get(1)
	for _, folder := range []string{a, b} {
		if err := checkPolicy(folder); err != nil {
			return err
		}
	}
	d, err := checkpoint.Diff(a, b)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := writeJSON(stdout, d); err != nil {
			return err
		}
	} else {
		printDifference(stdout, d)
	}
	if c.Bool("exit-code") && !d.Equal() {
		return errDiffer
	}
	return nil
}

// errDiffer ends lathe policy diff --exit-code with code 1, as of diff.
var errDiffer = errors.New("the policies differ")

func printDifference(w io.Writer, d checkpoint.Difference) {
	if d.Equal() {
		fmt.Fprintf(w, "the same weights: %d tensors, %d elements\n", d.Same, d.Total)
		return
	}
	fmt.Fprintf(w, "%d tensors are the same, %d differ; %d of %d elements differ, by at most %.3g (%.3g relative)\n",
		d.Same, len(d.Differ), d.Changed, d.Total, d.MaxAbs, d.MaxRel)
	for _, only := range []struct {
		names []string
		which string
	}{{d.OnlyA, "first"}, {d.OnlyB, "second"}} {
		if len(only.names) > 0 {
			fmt.Fprintf(w, "only in the %s: %s\n", only.which, strings.Join(only.names, " "))
		}
	}
	for i, t := range d.Differ {
		if i == maxDifferences {
			fmt.Fprintf(w, "  and %d more (--json has all)\n", len(d.Differ)-i)
			break
		}
		fmt.Fprintf(w, "  %s: %v %s, %v %s, %d of %d elements by at most %.3g (%.3g relative)\n",
			t.Name, t.ShapeA, t.DTypeA, t.ShapeB, t.DTypeB, t.Changed, t.Elements, t.MaxAbs, t.MaxRel)
	}
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
	Files         int                       `json:"files"`
	Stored        map[safetensors.DType]int `json:"parameters_by_dtype"`
	WeightBytes   int64                     `json:"weight_bytes"`
	Memory        []policy.Memory           `json:"memory"`
	FLOPs         []checkpoint.FLOPs        `json:"flops_per_token"`
	SHA256        string                    `json:"model_sha256"`
	Adapter       *adapterInspection        `json:"adapter"` // null unless the folder is an adapter's; all else is its base's
	GPU           *gpuPlans                 `json:"gpu"`     // null without --gpu
}

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

func policyInspect(c *cli.Context) error {
	values, err := need(c, "model")
	if err != nil {
		return err
	}
	adapter, base, err := inspectAdapter(values["model"])
	if err != nil {
		return err
	}
	if err := checkPolicy(base); err != nil {
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
		MaxTokens: found.Config.MaxPositionEmbeddings, Tied: found.Config.TieWordEmbeddings,
		Files: found.Files, Stored: found.Stored, WeightBytes: found.WeightBytes, Memory: found.Memory, FLOPs: found.FLOPs, SHA256: found.SHA256,
	}
	if x.GPU, err = planGPU(c, found.Config, found.Stored); err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(stdout, x)
	}
	printInspection(stdout, x)
	if x.GPU == nil {
		return nil
	}
	return printPlans(stdout, x.GPU)
}

func printInspection(w io.Writer, x inspection) {
	megabytes := func(n int64) float64 { return float64(n) / 1e6 }
	if x.Adapter != nil {
		fmt.Fprintf(w, "adapter of %s: rank %d, alpha %g, %d parameters in %s; its base:\n",
			x.Adapter.Base, x.Adapter.Rank, x.Adapter.Alpha, x.Adapter.Parameters, strings.Join(x.Adapter.Targets, " "))
	}
	fmt.Fprintf(w, "%s: %s, %d parameters\n", x.Folder, x.Architecture, x.Parameters)
	fmt.Fprintf(w, "  %d layers, hidden %d, %d heads over %d, vocabulary %d, up to %d tokens, tied head: %v\n",
		x.Layers, x.HiddenSize, x.Heads, x.KeyValueHeads, x.VocabSize, x.MaxTokens, x.Tied)
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
}

// checkPolicy reports a folder that is not a policy at all.
func checkPolicy(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, checkpoint.ConfigFile)); err != nil {
		return exitcode.WithHint(exitcode.Dataf("%q is not a policy folder: %w", folder, err),
			"a policy folder is in Hugging Face layout: config.json, model.safetensors, tokenizer.json")
	}
	return nil
}
