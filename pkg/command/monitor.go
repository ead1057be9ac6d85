package command

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// GPU is one GPU as it is right now.
type GPU struct {
	Index            int     `json:"index"` // NVML's; it need not be CUDA's
	UUID             string  `json:"uuid"`
	Name             string  `json:"name"`
	MemoryTotalBytes uint64  `json:"memory_total_bytes"`
	MemoryUsedBytes  uint64  `json:"memory_used_bytes"`
	UtilizationShare float64 `json:"utilization_share"` // of the last moments in which a kernel ran, in [0, 1]
	PowerWatts       float64 `json:"power_watts"`
}

// MonitorOptions are those of lathe-monitor.
type MonitorOptions struct {
	JSON bool
	Read func() ([]GPU, error) // asks the driver
}

// Monitor is lathe-monitor. It is handed what reads the GPUs, because NVML
// needs cgo and no other binary may.
func Monitor(read func() ([]GPU, error)) *cli.App {
	o := MonitorOptions{Read: read}
	app := newApp("lathe-monitor", "show the GPUs of this host")
	app.Flags = []cli.Flag{jsonFlag(&o.JSON)}
	app.Action = cmdline.NoArguments(func(c *cli.Context) error { return PrintGPUs(c.App.Writer, o) })
	return cmdline.Help{
		Example: "lathe-monitor --json", Exits: map[int]string{exitcode.Unavailable: "there is no GPU, or no driver of one"},
	}.App(app)
}

// PrintGPUs prints the GPUs of this host.
func PrintGPUs(out io.Writer, o MonitorOptions) error {
	gpus, err := o.Read()
	if err != nil {
		return err
	}
	if o.JSON {
		return cmdline.WriteJSON(out, gpus)
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "GPU\tNAME\tBUSY\tMEMORY\tPOWER\tUUID")
	for _, g := range gpus {
		fmt.Fprintf(table, "%d\t%s\t%.0f %%\t%.1f of %.1f GiB\t%.0f W\t%s\n", g.Index, g.Name, 100*g.UtilizationShare,
			float64(g.MemoryUsedBytes)/(1<<30), float64(g.MemoryTotalBytes)/(1<<30), g.PowerWatts, g.UUID)
	}
	return table.Flush()
}
