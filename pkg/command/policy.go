package command

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func modelFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "model", Usage: "policy `FOLDER` in Hugging Face layout", Destination: to}
}

func newFolderFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "out", Usage: "write `FOLDER`, which must not exist", Destination: to}
}

func dtypeFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "dtype", Usage: "type of the weights: `float32|float16|bfloat16`; default: unchanged", Destination: to}
}

// dtypes are the types of weights by their names in recipes and in PyTorch.
var dtypes = map[string]safetensors.DType{
	"float32": safetensors.F32, "float16": safetensors.F16, "bfloat16": safetensors.BF16,
}

// parseDType reads --dtype; the empty type stands for none given.
func parseDType(name string) (safetensors.DType, error) {
	if name == "" {
		return "", nil
	}
	d, ok := dtypes[name]
	if !ok {
		return "", exitcode.Usagef("--dtype: got %q, want float32, float16 or bfloat16", name)
	}
	return d, nil
}

// checkModel refuses a --model that is not a policy at all.
func checkModel(folder string) error {
	if err := cmdline.Required("model", folder); err != nil {
		return err
	}
	return plain.CheckPolicy(folder)
}

func openEngine(folder string, threads int, workload policy.Workload) (*policy.Engine, error) {
	threads, err := cmdline.EngineThreads(threads)
	if err != nil {
		return nil, err
	}
	return backend.Open(folder, backend.Options{Backend: backend.Auto, Threads: threads, Workload: workload, Log: cmdline.Log("lathe")})
}

// writeFolder makes a policy folder under its final name once fill has filled
// it, and prints the digest of its weights.
func writeFolder(out io.Writer, path string, fill func(folder string) error) error {
	if err := newFolder(path, fill); err != nil {
		return err
	}
	digest, err := checkpoint.Digest(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, path, digest)
	return err
}

func newFolder(path string, fill func(folder string) error) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return exitcode.Usagef("--out: %q already exists", path)
	}
	w, err := seal.CreateFolder(path, seal.AttemptFromEnv())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if err := fill(w.Path()); err != nil {
		return err
	}
	return w.Place()
}

// TextOptions say how a text becomes token ids.
type TextOptions struct {
	AddSpecial   bool // put the special tokens around a text that the tokenizer puts around texts
	SplitSpecial bool // take the name of a special token in a text as text
}

func (o *TextOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "add-special-tokens", Usage: "add the tokenizer's special tokens around each text", Destination: &o.AddSpecial},
		&cli.BoolFlag{Name: "split-special-tokens", Usage: "encode the name of a special token in a text as plain text", Destination: &o.SplitSpecial},
	}
}

func (o TextOptions) encoder(t *tokenizer.Tokenizer) func(text string) []int32 {
	encode := t.Encode
	if o.SplitSpecial {
		encode = t.EncodeText
	}
	if !o.AddSpecial {
		return encode
	}
	return func(text string) []int32 { return t.WithSpecial(encode(text)) }
}
