package command

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gguf/folder"
)

// PolicyImportOptions are those of lathe policy import.
type PolicyImportOptions struct {
	File      string // in GGUF
	DType     string // of the weights; empty is float32
	Pre       string // pre-tokenizer, for a file that names none
	Out       string // folder
	MaxFileMB int64  // cut the weights into files of at most so many megabytes
}

func policyImportCommand() *cli.Command {
	var o PolicyImportOptions
	return cmdline.Help{
		Example: "lathe policy import SmolLM2-135M-Instruct.Q4_1.gguf --dtype bfloat16 --out runs/smollm2",
		Exits:   cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "import", Usage: "write a policy folder from a GGUF file of llama.cpp, its weights dequantised", ArgsUsage: "FILE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dtype", Usage: "type of the weights: `float32|float16|bfloat16`; float32 holds every dequantised value exactly", Value: "float32", Destination: &o.DType},
			&cli.StringFlag{Name: "pre", Usage: "`NAME` of the pre-tokenizer, such as llama-bpe; default: the one that the file names", Destination: &o.Pre},
			&cli.Int64Flag{Name: "max-file-mb", Usage: "split the weights into files of at most `MB`", Value: 5000, Destination: &o.MaxFileMB},
			newFolderFlag(&o.Out),
		},
		Action: cmdline.Argument("FILE", &o.File, func(c *cli.Context) error { return PolicyImport(c.App.Writer, o) }),
	})
}

// PolicyImport writes a policy folder from a GGUF file.
func PolicyImport(out io.Writer, o PolicyImportOptions) error {
	if err := cmdline.Required("out", o.Out); err != nil {
		return err
	}
	d, err := parseDType(o.DType)
	if err != nil {
		return err
	}
	const bytesPerMB = 1_000_000
	if o.MaxFileMB < 1 || o.MaxFileMB > 1<<40/bytesPerMB {
		return exitcode.Usagef("--max-file-mb: got %d, want 1 or more", o.MaxFileMB)
	}
	return writeFolder(out, o.Out, func(to string) error {
		return folder.Write(o.File, to, folder.Options{DType: d, Pre: o.Pre, MaxFileBytes: o.MaxFileMB * bytesPerMB})
	})
}
