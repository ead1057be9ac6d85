package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/monitor"
)

// GPU is one GPU, or one instance under MIG, as it is right now. What it does not
// say is absent.
type GPU struct {
	Index            int      `json:"index"` // NVML's; it need not be CUDA's; -1 for an instance
	UUID             string   `json:"uuid"`
	Name             string   `json:"name"`
	MemoryTotalBytes *float64 `json:"memory_total_bytes,omitempty"`
	MemoryUsedBytes  *float64 `json:"memory_used_bytes,omitempty"`
	UtilizationShare *float64 `json:"utilization_share,omitempty"` // of the last moments in which a kernel ran, in [0, 1]
	PowerWatts       *float64 `json:"power_watts,omitempty"`
	SMActiveShare    *float64 `json:"sm_active_share,omitempty"`
	TensorShare      *float64 `json:"tensor_active_share,omitempty"`
}

// Host is this host as it is right now.
type Host struct {
	Cores            float64  `json:"cores"`
	BusyCores        *float64 `json:"busy_cores,omitempty"` // since the look before
	MemoryUsedBytes  float64  `json:"memory_used_bytes"`
	MemoryTotalBytes float64  `json:"memory_total_bytes"`
}

// look is one look at a host.
type look struct {
	Time   time.Time `json:"time"`
	Host   Host      `json:"host"`
	GPUs   []GPU     `json:"gpus"`
	Faults []string  `json:"faults,omitempty"`

	busySeconds float64
}

// Show prints the GPUs of this host as they are now.
func Show(out io.Writer, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	sampler := o.Open(monitor.Devices{Given: "all", All: true})
	defer sampler.Close()
	l := see(time.Now(), sampler)
	if len(l.GPUs) == 0 {
		return exitcode.Unavailablef("no GPU can be read: %s", strings.Join(l.Faults, "; "))
	}
	if o.JSON {
		return cmdline.WriteJSON(out, l.GPUs)
	}
	return l.table(out)
}

// clear moves a terminal's cursor to its beginning and clears what is behind.
const clear = "\x1b[H\x1b[J"

// Watch prints what this host does, again and again.
func Watch(ctx context.Context, out io.Writer, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	gpus := o.Open(monitor.DevicesGiven(os.LookupEnv))
	defer gpus.Close()
	var before look
	terminal := cmdline.IsTerminal(out)
	for n := 1; ; n++ {
		// The host's sampler reads these every few times only: a fresh one always does.
		l := see(time.Now(), monitor.NewHost(0, 0), gpus)
		if seconds := l.Time.Sub(before.Time).Seconds(); n > 1 && seconds > 0 {
			busy := (l.busySeconds - before.busySeconds) / seconds
			l.Host.BusyCores = &busy
		}
		if len(l.Faults) == 0 {
			l.Faults = before.Faults // said once
		}
		before = l
		if err := l.print(out, o.JSON, terminal); err != nil {
			return err
		}
		if n == o.Count {
			return nil
		}
		select {
		case <-ctx.Done():
			return exitcode.Stoppedf("stopped by a signal")
		case <-time.After(o.Every):
		}
	}
}

func (l look) print(out io.Writer, asJSON, terminal bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(l)
	}
	if terminal {
		fmt.Fprint(out, clear)
	}
	const gibi = 1 << 30
	busy := "-"
	if l.Host.BusyCores != nil {
		busy = fmt.Sprintf("%.1f", *l.Host.BusyCores)
	}
	fmt.Fprintf(out, "%s  cores busy %s of %.0f  memory %.1f of %.1f GiB\n", l.Time.Format(time.TimeOnly), busy, l.Host.Cores,
		l.Host.MemoryUsedBytes/gibi, l.Host.MemoryTotalBytes/gibi)
	if len(l.GPUs) > 0 {
		return l.table(out)
	}
	_, err := fmt.Fprintf(out, "no GPU can be read: %s\n", strings.Join(l.Faults, "; "))
	return err
}

// table prints the GPUs; what is not known is a hyphen.
func (l look) table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "GPU\tNAME\tBUSY\tSM\tTENSOR\tMEMORY\tPOWER\tUUID")
	percent := func(share *float64) string {
		if share == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f %%", 100**share)
	}
	for _, g := range l.GPUs {
		memory, power, index := "-", "-", "-"
		if g.MemoryUsedBytes != nil && g.MemoryTotalBytes != nil {
			memory = fmt.Sprintf("%.1f of %.1f GiB", *g.MemoryUsedBytes/(1<<30), *g.MemoryTotalBytes/(1<<30))
		}
		if g.PowerWatts != nil {
			power = fmt.Sprintf("%.0f W", *g.PowerWatts)
		}
		if g.Index >= 0 {
			index = fmt.Sprint(g.Index)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", index, g.Name, percent(g.UtilizationShare), percent(g.SMActiveShare),
			percent(g.TensorShare), memory, power, g.UUID)
	}
	return table.Flush()
}

// see reads samplers once.
func see(now time.Time, samplers ...monitor.Sampler) look {
	l := look{Time: now, GPUs: []GPU{}}
	places := map[string]int{}
	take := func(r monitor.Reading) {
		if r.Name == monitor.Fault {
			if r.Value != 0 && r.Device == "" { // of a device: what it does not support
				l.Faults = append(l.Faults, r.Detail)
			}
			return
		}
		if r.Device == "" {
			l.host(r)
			return
		}
		place, known := places[r.Device]
		if !known {
			place = len(l.GPUs)
			places[r.Device] = place
			l.GPUs = append(l.GPUs, GPU{Index: -1, UUID: r.Device})
		}
		l.GPUs[place].take(r)
	}
	for _, s := range samplers {
		s.Read(now, take)
	}
	return l
}

func (l *look) host(r monitor.Reading) {
	switch r.Name {
	case monitor.HostCores:
		l.Host.Cores = r.Value
	case monitor.HostCPUSeconds:
		l.busySeconds = r.Value
	case monitor.HostMemoryBytes:
		l.Host.MemoryUsedBytes = r.Value
	case monitor.HostMemoryTotalBytes:
		l.Host.MemoryTotalBytes = r.Value
	}
}

func (g *GPU) take(r monitor.Reading) {
	value := r.Value
	switch r.Name {
	case monitor.DeviceName:
		g.Index, g.Name = int(value), r.Detail
	case monitor.MemoryTotalBytes:
		g.MemoryTotalBytes = &value
	case monitor.MemoryUsedBytes:
		g.MemoryUsedBytes = &value
	case monitor.UtilizationShare:
		g.UtilizationShare = &value
	case monitor.PowerWatts:
		g.PowerWatts = &value
	case monitor.SMActiveShare:
		g.SMActiveShare = &value
	case monitor.TensorActiveShare:
		g.TensorShare = &value
	}
}
