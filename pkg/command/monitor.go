package command

import (
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
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

// Monitor is lathe-monitor. It is handed what reads the GPUs, because NVML
// needs cgo and no other binary may.
func Monitor(read func() ([]GPU, error)) *cli.App {
	app := newApp("lathe-monitor", "show the GPUs of this host")
	app.Flags = []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}}
	app.Action = func(c *cli.Context) error {
		if _, err := arguments(c); err != nil {
			return err
		}
		gpus, err := read()
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return writeJSON(stdout, gpus)
		}
		table := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
		fmt.Fprintln(table, "GPU\tNAME\tBUSY\tMEMORY\tPOWER\tUUID")
		for _, g := range gpus {
			fmt.Fprintf(table, "%d\t%s\t%.0f %%\t%.1f of %.1f GiB\t%.0f W\t%s\n", g.Index, g.Name, 100*g.UtilizationShare,
				float64(g.MemoryUsedBytes)/(1<<30), float64(g.MemoryTotalBytes)/(1<<30), g.PowerWatts, g.UUID)
		}
		return table.Flush()
	}
	return app
}
