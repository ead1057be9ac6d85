package efficiency

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// parts are the series of an attempt, and what its samples say in words.
type parts struct {
	series  map[key]*series
	phases  map[string]float64 // seconds
	names   map[string]string  // of devices
	indices map[string]int
	xids    map[string][]int
	faults  map[fault]bool
	first   int64 // microseconds
	last    int64
	samples int64
	bytes   int64
}

type key struct{ device, name string }

type fault struct{ device, text string }

// throttling are the bits of NVML by which the driver holds clocks down for lack
// of power or for heat: SwPowerCap, HwSlowdown, SwThermalSlowdown,
// HwThermalSlowdown and HwPowerBrakeSlowdown.
const throttling = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

// kept are the names whose time lines are drawn.
var kept = []string{monitor.UtilizationShare, monitor.SMActiveShare}

// readAttempts reads the segments of a run, one attempt after the other. A segment
// that is being sealed now is left for the next time.
func readAttempts(ctx context.Context, r *rundir.Run) ([]Attempt, error) {
	root := r.Dir.Join(monitor.Folder)
	hosts, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the samples: %w", err)
	}
	var attempts []Attempt
	for _, host := range hosts {
		if !host.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(root, host.Name()))
		if err != nil {
			return nil, fmt.Errorf("listing the samples: %w", err)
		}
		stems := map[string][]string{}
		for _, entry := range entries {
			if i := strings.LastIndexByte(entry.Name(), '-'); i > 0 && strings.HasSuffix(entry.Name(), ".parquet") && entry.Name()[0] != '.' {
				stem := entry.Name()[:i]
				stems[stem] = append(stems[stem], filepath.Join(root, host.Name(), entry.Name()))
			}
		}
		for _, stem := range slices.Sorted(maps.Keys(stems)) {
			a, err := readAttempt(ctx, stem, stems[stem])
			if err != nil {
				return nil, err
			}
			if a != nil {
				attempts = append(attempts, *a)
			}
		}
	}
	slices.SortStableFunc(attempts, func(a, b Attempt) int { return a.Start.Compare(b.Start) })
	return attempts, nil
}

// readAttempt reads the segments of one attempt, in their order.
func readAttempt(ctx context.Context, stem string, paths []string) (*Attempt, error) {
	slices.Sort(paths)
	p := &parts{
		series: map[key]*series{}, phases: map[string]float64{}, names: map[string]string{}, indices: map[string]int{},
		xids: map[string][]int{}, faults: map[fault]bool{},
	}
	a := &Attempt{parts: p}
	for _, path := range paths {
		rows, m, err := shard.Read[shard.Sample](ctx, path, seal.Options{})
		if errors.Is(err, seal.ErrNotSealed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			a.Task, a.Number, a.Host, a.Job = rows[0].Task, int(rows[0].Attempt), rows[0].Host, m.Job
		}
		p.bytes += m.Bytes
		for _, row := range rows {
			p.take(row)
		}
	}
	if p.samples == 0 {
		return nil, nil
	}
	a.Stage, _, _ = strings.Cut(a.Task, "-")
	start := time.UnixMicro(p.first).UTC()
	if i := strings.LastIndexByte(stem, '.'); i > 0 {
		// When the monitor began, which is a little before its first sample.
		if millis, err := strconv.ParseInt(stem[i+1:], 10, 64); err == nil {
			if began := time.UnixMilli(millis).UTC(); began.Before(start) && start.Sub(began) < time.Minute {
				start = began
			}
		}
	}
	a.Start, a.Seconds = start, time.UnixMicro(p.last).Sub(start).Seconds()
	a.fill()
	return a, nil
}

// take adds one sample.
func (p *parts) take(row shard.Sample) {
	p.samples++
	if p.first == 0 || row.Time < p.first {
		p.first = row.Time
	}
	p.last = max(p.last, row.Time)
	switch row.Name {
	case monitor.Fault:
		if row.Value != 0 {
			p.faults[fault{row.Device, row.Detail}] = true
		}
		return
	case monitor.PhaseSeconds:
		p.phases[row.Detail] += row.Value
		return
	case monitor.DeviceName:
		p.names[row.Device], p.indices[row.Device] = row.Detail, int(row.Value)
		return
	case monitor.XID:
		p.xids[row.Device] = append(p.xids[row.Device], int(row.Value))
		return
	}
	k := key{row.Device, row.Name}
	s := p.series[k]
	if s == nil {
		s = &series{keep: slices.Contains(kept, row.Name)}
		p.series[k] = s
	}
	bits := row.Value
	if row.Name == monitor.ThrottleReasons && int64(row.Value)&throttling == 0 {
		bits = 0
	}
	if bits != 0 {
		bits = 1
	}
	s.add(row.Time, row.Value, row.Phase, bits)
}

// of is a series of a device; an empty one where there is none.
func (p *parts) of(device, name string) *series {
	if s := p.series[key{device, name}]; s != nil {
		return s
	}
	return &series{}
}

// fill reads off what the series of an attempt say.
func (a *Attempt) fill() {
	p := a.parts
	a.Cores = p.of("", monitor.Cores).last
	a.CPUSeconds = p.of("", monitor.CPUSeconds).max
	a.MemoryMaxBytes = p.of("", monitor.MemoryBytes).max
	a.MemoryGivenBytes = p.of("", monitor.MemoryLimitBytes).last
	if a.MemoryGivenBytes == 0 {
		a.MemoryGivenBytes, a.MemoryOfHost = p.of("", monitor.HostMemoryTotalBytes).last, true
	}
	for _, device := range slices.Sorted(maps.Keys(p.names)) {
		a.GPUs = append(a.GPUs, a.gpu(device))
	}
	slices.SortStableFunc(a.GPUs, func(a, b GPU) int { return a.Index - b.Index })
}

// heldUntil has an attempt hold what it was given until its job ended: its monitor was
// cut off with it, and may have seen less.
func (a *Attempt) heldUntil(end time.Time) {
	a.Seconds = end.Sub(a.Start).Seconds()
	for i := range a.GPUs {
		g := &a.GPUs[i]
		g.HeldSeconds, g.Seconds, g.GPUSeconds = a.Seconds, a.Seconds, a.Seconds
	}
}

// gpu is what an attempt did with a device that it held.
func (a *Attempt) gpu(device string) GPU {
	p := a.parts
	mean := func(name string) *float64 { return p.of(device, name).over.mean() }
	g := GPU{Host: a.Host, Index: p.indices[device], UUID: device, Name: p.names[device], HeldSeconds: a.Seconds, XIDs: p.xids[device]}
	g.Seconds, g.GPUSeconds = a.Seconds, a.Seconds
	g.GPUShare, g.SMActiveShare, g.SMOccupancyShare = mean(monitor.UtilizationShare), mean(monitor.SMActiveShare), mean(monitor.SMOccupancyShare)
	g.TensorShare, g.DRAMShare, g.PowerWatts = mean(monitor.TensorActiveShare), mean(monitor.DRAMActiveShare), mean(monitor.PowerWatts)
	g.MemoryMaxBytes, g.MemoryTotalBytes = p.of(device, monitor.MemoryUsedBytes).max, p.of(device, monitor.MemoryTotalBytes).last
	if g.MemoryTotalBytes > 0 {
		share := g.MemoryMaxBytes / g.MemoryTotalBytes
		g.GPUMemoryShare = &share
	}
	g.SlowdownShare = p.of(device, monitor.ThrottleReasons).nonzero.mean()
	if s := p.of(device, monitor.TemperatureCelsius); s.count > 0 {
		g.TemperatureMax = &s.max
	}
	if s := p.of(device, monitor.ECCUncorrected); s.count > 0 {
		g.ECCUncorrected = &s.last
	}
	g.EnergyJoules = p.energy(device)
	g.line, g.sm = p.of(device, monitor.UtilizationShare).line, p.of(device, monitor.SMActiveShare).line
	return g
}

// energy is what a device took, by its counter, or by its power where it has none;
// nil where it has neither.
func (p *parts) energy(device string) *float64 {
	if s := p.of(device, monitor.EnergyJoules); s.count > 1 {
		return &s.grown
	}
	if s := p.of(device, monitor.PowerWatts); s.count > 1 {
		return &s.over.sum
	}
	return nil
}
