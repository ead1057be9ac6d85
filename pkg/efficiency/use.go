package efficiency

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/monitor"
)

// sum adds up what attempts held and used.
type sum struct {
	use                                            Use
	memoryUsed, memoryGiven                        float64 // byte-seconds
	gpuMemoryUsed, gpuMemoryTotal                  float64 // byte-seconds
	util, sm, occupancy, tensor, dram, power, slow weighted
	energy                                         float64
	energyKnown                                    bool
	coreSeconds                                    float64 // of attempts whose cores are known
	cpuOfThose                                     float64
}

func (s *sum) add(a Attempt) {
	u := &s.use
	u.Seconds += a.Seconds
	u.CPUSeconds += a.CPUSeconds
	u.CoreSeconds += a.Cores * a.Seconds
	if a.Cores > 0 && a.Seconds > 0 {
		s.coreSeconds += a.Cores * a.Seconds
		s.cpuOfThose += a.CPUSeconds
	}
	u.MemoryMaxBytes = max(u.MemoryMaxBytes, a.MemoryMaxBytes)
	if a.MemoryGivenBytes > 0 && a.Seconds > 0 {
		s.memoryUsed += a.MemoryMaxBytes * a.Seconds
		s.memoryGiven += a.MemoryGivenBytes * a.Seconds
	}
	for _, g := range a.GPUs {
		s.addGPU(a, g)
	}
}

func (s *sum) addGPU(a Attempt, g GPU) {
	s.use.GPUSeconds += g.HeldSeconds
	of := func(name string) weighted { return a.parts.of(g.UUID, name).over }
	s.util.merge(of(monitor.UtilizationShare))
	s.sm.merge(of(monitor.SMActiveShare))
	s.occupancy.merge(of(monitor.SMOccupancyShare))
	s.tensor.merge(of(monitor.TensorActiveShare))
	s.dram.merge(of(monitor.DRAMActiveShare))
	s.power.merge(of(monitor.PowerWatts))
	s.slow.merge(a.parts.of(g.UUID, monitor.ThrottleReasons).nonzero)
	if g.MemoryTotalBytes > 0 {
		s.gpuMemoryUsed += g.MemoryMaxBytes * g.HeldSeconds
		s.gpuMemoryTotal += g.MemoryTotalBytes * g.HeldSeconds
	}
	if g.EnergyJoules != nil {
		s.energy += *g.EnergyJoules
		s.energyKnown = true
	}
}

// share is a by b; nil where there is nothing to divide by.
func share(a, b float64) *float64 {
	if b <= 0 {
		return nil
	}
	c := a / b
	return &c
}

// done is the sum, with its shares. CPU time is counted in hundredths of a second,
// and began a little before the first sample, so that a share is at most 1.
func (s *sum) done() Use {
	u := s.use
	u.CPUShare = atMostOne(share(s.cpuOfThose, s.coreSeconds))
	u.MemoryShare = share(s.memoryUsed, s.memoryGiven)
	u.GPUShare, u.SMActiveShare, u.SMOccupancyShare = s.util.mean(), s.sm.mean(), s.occupancy.mean()
	u.TensorShare, u.DRAMShare, u.PowerWatts = s.tensor.mean(), s.dram.mean(), s.power.mean()
	u.SlowdownShare = s.slow.mean()
	u.GPUMemoryShare = share(s.gpuMemoryUsed, s.gpuMemoryTotal)
	if s.energyKnown {
		u.EnergyJoules = &s.energy
	}
	return u
}

func atMostOne(share *float64) *float64 {
	if share != nil && *share > 1 {
		one := 1.0
		return &one
	}
	return share
}

func useOf(attempts []Attempt) Use {
	var s sum
	for _, a := range attempts {
		s.add(a)
	}
	return s.done()
}

// byStage sums up each stage, in the order of the first attempts.
func byStage(attempts []Attempt) []StageUse {
	grouped := map[string][]Attempt{}
	var order []string
	for _, a := range attempts {
		if grouped[a.Stage] == nil {
			order = append(order, a.Stage)
		}
		grouped[a.Stage] = append(grouped[a.Stage], a)
	}
	stages := []StageUse{}
	for _, stage := range order {
		stages = append(stages, StageUse{Stage: stage, Attempts: len(jobsOf(grouped[stage])), Use: useOf(grouped[stage])})
	}
	return stages
}

// byPhase sums up each phase, the longest first.
func byPhase(attempts []Attempt) []PhaseUse {
	seconds := map[string]float64{}
	util, power, cpu := map[string]weighted{}, map[string]weighted{}, map[string]weighted{}
	held := map[string]float64{}
	longest := map[string]Attempt{}
	var total float64
	for _, a := range attempts {
		for phase, spent := range a.parts.phases {
			if before, any := longest[phase]; !any || spent > before.parts.phases[phase] {
				longest[phase] = a
			}
			seconds[phase] += spent
			total += spent
			held[phase] += spent * float64(len(a.GPUs))
		}
		merge := func(to map[string]weighted, s *series) {
			for phase, w := range s.byPhase {
				sum := to[phase]
				sum.merge(w)
				to[phase] = sum
			}
		}
		for _, g := range a.GPUs {
			merge(util, a.parts.of(g.UUID, monitor.UtilizationShare))
			merge(power, a.parts.of(g.UUID, monitor.PowerWatts))
		}
		used := a.parts.of("", monitor.CPUSeconds)
		for phase, w := range used.byPhase {
			sum := cpu[phase]
			sum.seconds += w.seconds * a.Cores
			sum.sum += used.grownBy[phase]
			cpu[phase] = sum
		}
	}
	phases := []PhaseUse{}
	for phase, spent := range seconds {
		phases = append(phases, PhaseUse{
			Phase: phase, Seconds: spent, Share: spent / total, CPUShare: atMostOne(cpu[phase].mean()),
			GPUSeconds: held[phase], GPUShare: util[phase].mean(), PowerWatts: power[phase].mean(),
			LongestSeconds: longest[phase].parts.phases[phase], LongestTask: longest[phase].Task,
		})
	}
	slices.SortFunc(phases, func(a, b PhaseUse) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Phase, b.Phase))
	})
	return phases
}

// byGPU sums up each device, over all tasks that held it.
func byGPU(attempts []Attempt) []GPU {
	type place struct{ host, uuid string }
	grouped, sums := map[place]*GPU{}, map[place]*sum{}
	for _, a := range attempts {
		for _, g := range a.GPUs {
			at := place{g.Host, g.UUID}
			all := grouped[at]
			if all == nil {
				all = &GPU{Host: g.Host, Index: g.Index, UUID: g.UUID, Name: g.Name}
				grouped[at], sums[at] = all, &sum{}
			}
			sums[at].addGPU(a, g)
			all.HeldSeconds += g.HeldSeconds
			all.MemoryTotalBytes = max(all.MemoryTotalBytes, g.MemoryTotalBytes)
			all.MemoryMaxBytes = max(all.MemoryMaxBytes, g.MemoryMaxBytes)
			all.TemperatureMax = larger(all.TemperatureMax, g.TemperatureMax)
			all.ECCUncorrected = larger(all.ECCUncorrected, g.ECCUncorrected)
			all.XIDs = append(all.XIDs, g.XIDs...)
			all.line, all.sm = joined(all.line, g.line), joined(all.sm, g.sm)
		}
	}
	gpus := []GPU{}
	for at, g := range grouped {
		most := g.MemoryMaxBytes
		g.Use = sums[at].done()
		g.MemoryMaxBytes, g.Seconds = most, g.HeldSeconds
		g.GPUMemoryShare = share(most, g.MemoryTotalBytes) // of a device: its highest, as jobstats has it
		gpus = append(gpus, *g)
	}
	slices.SortFunc(gpus, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	return gpus
}

// joined puts the time line of a later attempt behind that of an earlier one: between
// the two the run did not use the device.
func joined(line, later []moment) []moment {
	if len(line) > 0 && len(later) > 0 {
		end, begin := line[len(line)-1].at, later[0].at.Add(-time.Duration(later[0].seconds*float64(time.Second)))
		if idle := begin.Sub(end).Seconds(); idle > 0 {
			line = append(line, moment{at: end}, moment{at: begin, seconds: idle})
		}
	}
	return append(line, later...)
}

func larger(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// shared reports whether some device was seen by two attempts at once, for more than
// a moment. attempts go up by their start.
func shared(attempts []Attempt) bool {
	type place struct{ host, uuid string }
	until := map[place]time.Time{}
	for _, a := range attempts {
		end := a.end()
		for _, g := range a.GPUs {
			at := place{g.Host, g.UUID}
			if until[at].Sub(a.Start) > time.Second {
				return true
			}
			if end.After(until[at]) {
				until[at] = end
			}
		}
	}
	return false
}

// nodesOf lists the hosts.
func nodesOf(attempts []Attempt) []string {
	hosts := map[string]bool{}
	for _, a := range attempts {
		hosts[a.Host] = true
	}
	return slices.Sorted(maps.Keys(hosts))
}
