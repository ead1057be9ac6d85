package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// PolicyInitOptions are those of lathe policy init. One of Recipe and Config
// must be there.
type PolicyInitOptions struct {
	RecipeOptions
	Config string  // config.json, or the folder that it is in
	Seed   *uint64 // of the weights; nil is the recipe's, or 1
	DType  string  // of the weights; empty is the recipe's, or float32
	Out    string  // folder
}

func policyInitCommand() *cli.Command {
	var o PolicyInitOptions
	var seed uint64
	return cmdline.Help{
		Example: "lathe policy init --recipe jobs/smoke.yaml --seed 2 --out runs/random",
		Exits:   cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "init", Usage: "create a policy with random weights from a recipe or a config.json",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` that has policy.new", Destination: &o.Recipe},
			cmdline.SetFlag(&o.Set),
			&cli.StringFlag{Name: "config", Usage: "config.json `FILE` or its folder; tokenizer files in the folder are copied", Destination: &o.Config},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the weights; default with --recipe: the recipe's", Value: 1, Destination: &seed},
			dtypeFlag(&o.DType), newFolderFlag(&o.Out),
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error {
			if c.IsSet("seed") {
				o.Seed = &seed
			}
			return PolicyInit(c.App.Writer, o)
		}),
	})
}

// PolicyInit writes a policy with random weights.
func PolicyInit(out io.Writer, o PolicyInitOptions) error {
	if err := cmdline.Required("out", o.Out); err != nil {
		return err
	}
	switch {
	case (o.Recipe == "") == (o.Config == ""):
		return exitcode.Usagef("--recipe and --config are missing: give one of them")
	case o.Config != "" && len(o.Set) > 0:
		return cmdline.Misusef("--config and --set exclude each other")
	}
	fill := o.fromRecipe
	if o.Config != "" {
		fill = o.fromConfig
	}
	return writeFolder(out, o.Out, fill)
}

func (o PolicyInitOptions) fromRecipe(folder string) error {
	settings, err := o.settings()
	if err != nil {
		return err
	}
	resolved, err := RecipeOptions{Recipe: o.Recipe, Set: settings}.load()
	if err != nil {
		return err
	}
	if resolved.Recipe.Policy.New == nil {
		return exitcode.Usagef("recipe %q has no policy.new: it names a policy folder, so there is nothing to create", o.Recipe)
	}
	environment, err := resolved.Recipe.NewEnv(filepath.Dir(resolved.Path))
	if err != nil {
		return err
	}
	return warm.InitPolicy(warm.SettingsOf(resolved.Recipe), environment, folder)
}

// settings are those of the recipe, with the ones that have flags of their own.
func (o PolicyInitOptions) settings() ([]string, error) {
	settings := slices.Clone(o.Set)
	if o.Seed != nil {
		settings = append(settings, fmt.Sprintf("seed=%d", *o.Seed))
	}
	d, err := parseDType(o.DType)
	switch {
	case err != nil || d == "":
		return settings, err
	case d == safetensors.F16:
		return nil, exitcode.WithHint(exitcode.Usagef("--dtype: got %q, want float32 or bfloat16 with --recipe", o.DType),
			"to convert a policy to another type: lathe policy convert")
	}
	return append(settings, "policy.dtype="+o.DType), nil
}

// fromConfig draws weights in the shape of a config.json. If --config names a
// folder, its tokenizer and other files are copied.
func (o PolicyInitOptions) fromConfig(folder string) error {
	info, err := os.Stat(o.Config)
	if err != nil {
		return err
	}
	from := o.Config
	if !info.IsDir() {
		if filepath.Base(o.Config) != checkpoint.ConfigFile {
			return exitcode.Usagef("--config: got %q, want a %s or the folder of one", o.Config, checkpoint.ConfigFile)
		}
		from = filepath.Dir(o.Config)
	}
	d, err := parseDType(o.DType)
	if err != nil {
		return err
	}
	config, err := checkpoint.LoadConfig(from)
	if err != nil {
		return err
	}
	seed := uint64(1)
	if o.Seed != nil {
		seed = *o.Seed
	}
	tensors, err := policy.Init(config, seed)
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
