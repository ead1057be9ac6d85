//go:build cgo

package nvidia

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// taken are readings in words, by device and name; of several the last.
type taken map[string]string

func read(s *Sampler, now time.Time) (taken, []string) {
	all, faults := taken{}, []string{}
	s.Read(now, func(r monitor.Reading) {
		if r.Name == monitor.Fault {
			faults = append(faults, fmt.Sprintf("%s|%v|%s", r.Device, r.Value, r.Detail))
			return
		}
		text := fmt.Sprint(r.Value)
		if r.Detail != "" {
			text += " " + r.Detail
		}
		all[r.Device+" "+r.Name] = text
	})
	return all, faults
}

// open makes a sampler of a script.
func open(t *testing.T, script string, old bool, given monitor.Devices) *Sampler {
	t.Helper()
	path := nvmltest.Build(t, old)
	t.Setenv(nvmltest.Script, nvmltest.WriteScript(t, script))
	s := New(path, given)
	t.Cleanup(s.Close)
	return s
}

const hopper = `* driver 570.86.15
0 uuid GPU-aaaa
0 name NVIDIA H100 80GB HBM3
0 utilization 97
0 memory_busy 41
0 memory 68719476736
0 memory_total 85520809984
0 memory_reserved 1048576
0 power 612500
0 energy +612500
0 power_limit 700000
0 temperature 61
0 clock 1755
0 clock_max 1980
0 memory_clock 2619
0 throttle 4
0 throttled_power 2500000000
0 throttled_thermal 750000000
0 replays 2
0 ecc_corrected 3
0 ecc_uncorrected 0
0 remapped 1
0 processes 2
0 process_memory 3221225472
0 samples 90 95 100 100 95 90 0 0 0 0 0 4000000000
0 process_sm 40 7 4000000000 7
0 life_utilization 83
0 life_memory 4294967296
0 sm_active 91.5
0 sm_occupancy 40
0 tensor 33.25
0 dram 55
0 fp64 1
0 fp32 12.5
0 fp16 25
0 gpm_pcie_tx 10
0 gpm_pcie_rx 20
0 nvlink_tx 2
0 nvlink_rx 1
0 xid 0 79 0*1000
`

// Every number comes with its unit: those of the script, in NVML's units, by hand.
// Alone: the script is named by the environment.
func TestValuesAndUnits(t *testing.T) {
	self := os.Getpid() // computes on the GPU, and so does a process of another
	s := open(t, hopper+fmt.Sprintf("0 pid %d 1\n", self), false, monitor.Devices{Given: "test", All: true, Task: self})
	first, faults := read(s, zero)
	if len(faults) != 0 {
		t.Errorf("faults at first: %q", faults)
	}
	if _, early := first["GPU-aaaa "+monitor.SMActiveShare]; early {
		t.Error("GPM has numbers after one sample")
	}
	second, _ := read(s, zero.Add(time.Second))
	maps.Copy(first, second)
	want := taken{
		" " + monitor.DriverVersion: "1 570.86.15", " " + monitor.SelectedBy: "1 test",
		"GPU-aaaa " + monitor.DeviceName:       "0 NVIDIA H100 80GB HBM3",
		"GPU-aaaa " + monitor.UtilizationShare: "0.97", "GPU-aaaa " + monitor.MemoryBusyShare: "0.41",
		"GPU-aaaa " + monitor.MemoryUsedBytes: "6.8719476736e+10", "GPU-aaaa " + monitor.MemoryReservedBytes: "1.048576e+06",
		"GPU-aaaa " + monitor.MemoryTotalBytes: "8.5520809984e+10",
		"GPU-aaaa " + monitor.PowerWatts:       "612.5", "GPU-aaaa " + monitor.PowerLimitWatts: "700",
		"GPU-aaaa " + monitor.EnergyJoules: "1225", "GPU-aaaa " + monitor.TemperatureCelsius: "61",
		"GPU-aaaa " + monitor.SMClockHertz: "1.755e+09", "GPU-aaaa " + monitor.SMClockMaxHertz: "1.98e+09",
		"GPU-aaaa " + monitor.MemoryClockHertz: "2.619e+09", "GPU-aaaa " + monitor.ThrottleReasons: "4",
		"GPU-aaaa " + monitor.PCIeReplays: "2", "GPU-aaaa " + monitor.ECCCorrected: "3", "GPU-aaaa " + monitor.ECCUncorrected: "0",
		"GPU-aaaa " + monitor.RemappedRows: "1", "GPU-aaaa " + monitor.GPUProcesses: "2",
		"GPU-aaaa " + monitor.GPUProcessMemoryBytes:   fmt.Sprintf("3.221225472e+09 %d", self),
		"GPU-aaaa " + monitor.UtilizationSamplesShare: "0.95",                      // the mean of six
		"GPU-aaaa " + monitor.GPUProcessSMShare:       fmt.Sprintf("0.4 %d", self), // of two one is no percentage
		"GPU-aaaa " + monitor.GPUProcessMemoryShare:   fmt.Sprintf("0.2 %d", self),
		"GPU-aaaa " + monitor.GPUProcessLifeShare:     fmt.Sprintf("0.83 %d", self),
		"GPU-aaaa " + monitor.GPUProcessPeakBytes:     fmt.Sprintf("4.294967296e+09 %d", self),
		"GPU-aaaa " + monitor.ThrottledPowerSeconds:   "2.5", "GPU-aaaa " + monitor.ThrottledThermalSeconds: "0.75",
		"GPU-aaaa " + monitor.FP64ActiveShare: "0.01", "GPU-aaaa " + monitor.FP32ActiveShare: "0.125", "GPU-aaaa " + monitor.FP16ActiveShare: "0.25",
		"GPU-aaaa " + monitor.SMActiveShare: "0.915", "GPU-aaaa " + monitor.SMOccupancyShare: "0.4",
		"GPU-aaaa " + monitor.TensorActiveShare: "0.3325", "GPU-aaaa " + monitor.DRAMActiveShare: "0.55",
		"GPU-aaaa " + monitor.PCIeTxBytesPerSecond: "1.048576e+07", "GPU-aaaa " + monitor.PCIeRxBytesPerSecond: "2.097152e+07",
		"GPU-aaaa " + monitor.NVLinkTxBytesPerSecond: "2.097152e+06", "GPU-aaaa " + monitor.NVLinkRxBytesPerSecond: "1.048576e+06",
		"GPU-aaaa " + monitor.XID: "79",
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if first[name] != want[name] {
			t.Errorf("%s is %q, want %q", name, first[name], want[name])
		}
	}
	for name, value := range first {
		if _, known := want[name]; !known {
			t.Errorf("%s is %q, and was not told", name, value)
		}
	}
}

// Ten thousand samples are what the library was told, each in its turn, failures
// among them: a number that could not be read is not there.
// Alone: the script is named by the environment.
func TestTenThousandSamples(t *testing.T) {
	const script = `0 uuid GPU-aaaa
0 name A
0 memory 100 200 300
0 memory_total 1000
0 utilization 10 20 !999 40 50 60 70
0 power 1000*5 2000*3
0 energy +250
`
	s := open(t, script, false, monitor.Devices{All: true})
	utilization := []string{"0.1", "0.2", "", "0.4", "0.5", "0.6", "0.7"}
	power := []string{"1", "1", "1", "1", "1", "2", "2", "2"}
	var faults int
	for i := range 10_000 {
		got, said := read(s, zero.Add(time.Duration(i)*time.Second))
		for name, want := range map[string]string{
			monitor.MemoryUsedBytes: fmt.Sprint(100 * (i%3 + 1)), monitor.UtilizationShare: utilization[i%7], monitor.PowerWatts: power[i%8],
			monitor.EnergyJoules: fmt.Sprint(0.25 * float64(i+1)), monitor.MemoryTotalBytes: "1000",
		} {
			if got["GPU-aaaa "+name] != want {
				t.Fatalf("sample %d: %s is %q, want %q", i, name, got["GPU-aaaa "+name], want)
			}
		}
		if i >= 10 {
			faults += len(said)
		}
	}
	// It fails once in seven reads and works in the next: a fault that begins and one
	// that ends, each time.
	if faults < 2*(10_000-10)/7-4 || faults > 2*(10_000-10)/7+4 {
		t.Errorf("%d faults", faults)
	}
}

// What is not there is recorded once, and is no number.
// Alone: the script is named by the environment.
func TestFailures(t *testing.T) {
	const basic = "0 uuid GPU-aaaa\n0 name A\n0 memory 5\n0 memory_total 9\n0 utilization 50\n0 power 1000\n"
	index := func(i int) monitor.Devices {
		return monitor.Devices{Given: "test", Tokens: []monitor.Token{{Index: i, GPUInstance: -1, ComputeInstance: -1}}}
	}
	all, self, g := monitor.Devices{All: true}, monitor.Devices{All: true, Task: os.Getpid()}, "GPU-aaaa "
	at := func(seconds ...time.Duration) []time.Duration { return seconds }
	const again = 17 // seconds: when what is gone is looked for again
	process := fmt.Sprintf("0 processes 1\n0 pid %d\n", os.Getpid())
	for name, c := range map[string]struct {
		script string
		old    bool
		given  monitor.Devices
		after  []time.Duration // seconds, of the reads
		usual  int             // faults: what the device has no line for
		fault  string          // the others of all reads
		last   taken           // of the last read, what is not as in basic; nil for nothing at all
	}{
		"no driver, then there is one": {"* init !9 0\n" + basic, false, all, at(0, 1, 16), 14, "|9|opening NVML: the driver is not loaded, |0|opening NVML: again", taken{}},
		"other versions":               {"* init !18\n" + basic, false, all, at(0), 0, "|18|opening NVML: the driver and its library are of different versions", nil},
		"no device":                    {"* driver 1\n", false, all, at(0, 1), 0, "|28|finding GPUs: there is no GPU", nil},
		"counting fails":               {"* count !999 1 1\n" + basic, false, all, at(0), 0, "|999|counting GPUs: an unknown error of the driver", nil},
		"no events":                    {"* events !999\n" + basic, false, all, at(0), 13, "|999|XID events: an unknown error of the driver", taken{}},
		"not supported is not asked":   {strings.Replace(basic, "power 1000", "power !3 1000", 1), false, all, at(0, 1), 14, "GPU-aaaa|3|power: not supported by this device", taken{g + monitor.PowerWatts: ""}},
		"GPM fails once":               {basic + "0 sm_active 50\n0 gpm !999 0*9\n", false, all, at(0, 1, 2), 12, "GPU-aaaa|999|GPM: an unknown error of the driver, GPU-aaaa|0|GPM: again", taken{g + monitor.SMActiveShare: "0.5"}},
		"GPM of a GPU that is found":   {basic + "0 sm_active 50\n0 lost 0 0 !15 0*100\n", false, all, at(0, 1, 2, 2+again), 12, "GPU-aaaa|15|the device: the GPU is lost: it has fallen off the bus, GPU-aaaa|0|the device: again", taken{}}, // it begins again
		"not our index":                {basic + "1 uuid GPU-bbbb\n1 memory 1\n", false, index(7), at(0), 0, "|6|GPU 7 of 2 that may be opened: not found, |28|finding GPUs: there is no GPU", nil},
		"the index behind the last":    {basic + "1 uuid GPU-bbbb\n1 memory 1\n", false, index(2), at(0), 0, "|6|GPU 2 of 2 that may be opened: not found, |28|finding GPUs: there is no GPU", nil},
		"another's UUID":               {basic, false, monitor.Devices{Tokens: []monitor.Token{{Index: -1, UUID: "GPU-b", GPUInstance: -1}}}, at(0), 0, "GPU-b|6|finding the device: not found, |28|finding GPUs: there is no GPU", nil},
		"none was given":               {basic, false, monitor.Devices{Given: "CUDA_VISIBLE_DEVICES="}, at(0), 0, "|28|finding GPUs: there is no GPU", nil},
		"another's first":              {"0 uuid GPU-zzzz\n0 open !4\n1" + strings.ReplaceAll(basic[1:], "\n0", "\n1"), false, index(0), at(0), 14, "", taken{}},
		"one does not open":            {"0 uuid GPU-zzzz\n0 open !999\n1" + strings.ReplaceAll(basic[1:], "\n0", "\n1"), false, all, at(0), 14, "|999|opening GPU 0: an unknown error of the driver", taken{}},
		"an old driver":                {basic, true, all, at(0, 1), 11, "|13|XID events: this driver's library is too old for it, GPU-aaaa|13|GPM: this driver's library is too old for it, GPU-aaaa|13|energy: this driver's library is too old for it", taken{g + monitor.MemoryReservedBytes: ""}},
		"old, and lost":                {basic + "0 lost 0 !15 0*100\n", true, all, at(0, 1, again, again+1), 11, "|13|XID events: this driver's library is too old for it, GPU-aaaa|13|GPM: this driver's library is too old for it, GPU-aaaa|13|energy: this driver's library is too old for it, GPU-aaaa|15|the device: the GPU is lost: it has fallen off the bus", nil},
		"another's process":            {basic + "0 processes 2\n0 process_memory 4\n0 pid 1 " + fmt.Sprint(os.Getpid()) + "\n0 process_sm 7 40\n", false, self, at(0), 13, "", taken{g + monitor.GPUProcesses: "2", g + monitor.GPUProcessMemoryBytes: fmt.Sprintf("4 %d", os.Getpid()), g + monitor.GPUProcessSMShare: fmt.Sprintf("0.4 %d", os.Getpid()), g + monitor.GPUProcessMemoryShare: fmt.Sprintf("0.2 %d", os.Getpid())}},
		"our process without shares":   {basic + process + "0 process_memory 4\n0 process_sm 101\n", false, self, at(0), 13, "", taken{g + monitor.GPUProcesses: "1", g + monitor.GPUProcessMemoryBytes: fmt.Sprintf("4 %d", os.Getpid()), g + monitor.GPUProcessMemoryShare: fmt.Sprintf("0.5 %d", os.Getpid())}},
		"before Hopper":                {basic, false, all, at(0), 14, "", taken{}},
		"lost":                         {basic + "0 lost 0 !15\n", false, all, at(0, 1, 2), 14, "GPU-aaaa|15|the device: the GPU is lost: it has fallen off the bus", nil},
		"lost and found":               {basic + "0 lost 0 !15 0*100\n", false, all, at(0, 1, again, again+1), 14, "GPU-aaaa|15|the device: the GPU is lost: it has fallen off the bus, GPU-aaaa|0|the device: again", taken{}},
		"driver reloaded":              {strings.Replace(basic, "memory 5", "memory 5 !1 7*100", 1), false, all, at(0, 1, 2, again), 14, "|1|opening NVML: NVML is not initialized, |0|opening NVML: again", taken{}}, // its script begins again
		"no permission for one number": {strings.Replace(basic, "power 1000", "power !4", 1), false, all, at(0, 1), 14, "GPU-aaaa|4|power: no permission", taken{g + monitor.PowerWatts: ""}},
		"a number that comes back":     {strings.Replace(basic, "power 1000", "power !4 1000", 1), false, all, at(0, 1), 14, "GPU-aaaa|4|power: no permission, GPU-aaaa|0|power: again", taken{}},
		"no memory of our process":     {basic + process + "0 process_memory !3\n", false, self, at(0), 13, "", taken{g + monitor.GPUProcesses: "1"}},
		"a life that is not known":     {basic + process + "0 process_memory 1\n0 life_utilization !6\n", false, self, at(0), 13, "", taken{g + monitor.GPUProcesses: "1", g + monitor.GPUProcessMemoryBytes: fmt.Sprintf("1 %d", os.Getpid())}},
		"no sample since":              {basic + "0 samples 50*99\n", false, all, at(0), 14, "", taken{g + monitor.UtilizationSamplesShare: "0.5"}},
		"no percentages":               {basic + "0 samples 101*99\n", false, all, at(0), 14, "", taken{}},
		"one number of GPM":            {basic + "0 sm_active 50\n0 tensor !3\n", false, all, at(0, 1), 12, "", taken{g + monitor.SMActiveShare: "0.5"}},
		"errors":                       {basic + "0 xid 31 79\n", false, all, at(0), 13, "", taken{g + monitor.XID: "79"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.script, c.old, c.given)
			var faults []string
			var last taken
			for _, after := range c.after {
				var said []string
				last, said = read(s, zero.Add(after*time.Second))
				faults = append(faults, said...)
			}
			usual := []string{"XID events", "GPM", "energy", "power limit", "temperature", "clock", "memory clock", "highest clock", "throttle reasons", "PCIe", "PCIe replays", "ECC", "remapped rows", "processes"}
			rest := slices.DeleteFunc(slices.Clone(faults), func(fault string) bool {
				what, unsupported := strings.CutSuffix(strings.TrimPrefix(fault, "GPU-aaaa|3|"), ": not supported by this device")
				return unsupported && slices.Contains(usual, what)
			})
			if got := strings.Join(rest, ", "); got != c.fault || len(faults)-len(rest) != c.usual {
				t.Errorf("%d usual faults and %q, want %d and %q", len(faults)-len(rest), got, c.usual, c.fault)
			}
			sorted := slices.Sorted(slices.Values(faults))
			if len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
				t.Errorf("a fault is said twice: %q", faults)
			}
			want := taken{}
			if c.last != nil {
				maps.Copy(want, taken{"GPU-aaaa " + monitor.UtilizationShare: "0.5", "GPU-aaaa " + monitor.MemoryBusyShare: "0", "GPU-aaaa " + monitor.MemoryUsedBytes: "5", "GPU-aaaa " + monitor.MemoryReservedBytes: "0", "GPU-aaaa " + monitor.MemoryTotalBytes: "9", "GPU-aaaa " + monitor.PowerWatts: "1"})
				maps.Copy(want, c.last)
			}
			maps.DeleteFunc(want, func(_, value string) bool { return value == "" })
			maps.DeleteFunc(last, func(name, _ string) bool {
				return !strings.HasPrefix(name, "GPU-") || strings.HasSuffix(name, monitor.DeviceName)
			})
			if !maps.Equal(last, want) {
				t.Errorf("%v, want %v", last, want)
			}
		})
	}
}

// There is no library at all. Alone: it loads one.
func TestNoLibrary(t *testing.T) {
	s := New("/nowhere/"+nvmltest.Name, monitor.Devices{All: true})
	if _, faults := read(s, zero); len(faults) != 1 || faults[0] != "|12|opening NVML: there is no "+nvmltest.Name {
		t.Errorf("faults %q", faults)
	}
	if _, faults := read(s, zero.Add(retryEvery+time.Second)); len(faults) != 0 {
		t.Errorf("said again: %q", faults)
	}
	s.Close()
}

const divided = `0 uuid GPU-aaaa
0 name NVIDIA H100 80GB HBM3
0 mig 1
0.0 uuid MIG-1111-2222
0.0 name NVIDIA H100 80GB HBM3 MIG 3g.40gb
0.0 instance 1
0.0 compute_instance 0
0.0 memory 1000
0.0 memory_total 40000
0.0 sm_active 50
0.1 uuid MIG-3333-4444
0.1 name NVIDIA H100 80GB HBM3 MIG 1g.10gb
0.1 instance 2
0.1 compute_instance 0
0.1 memory 500
0.1 memory_total 10000
`

// Devices are found by each form that CUDA and Slurm have for them. An instance
// under MIG has its memory and, where there is GPM, its shares; it has no duty
// cycle and no power of its own, and a GPU's are not taken for an instance's.
// Alone: the script is named by the environment.
func TestDevices(t *testing.T) {
	three := "0 uuid GPU-aaaa\n0 memory 1\n1 uuid GPU-bbbb\n1 memory 1\n2 uuid GPU-cccc\n2 memory 1\n"
	for name, c := range map[string]struct {
		script, visible string
		want            []string
	}{
		"indices":               {three, "0,2", []string{"GPU-aaaa", "GPU-cccc"}},
		"in their order":        {three, "2,0", []string{"GPU-cccc", "GPU-aaaa"}},
		"UUIDs":                 {three, "GPU-cccc,GPU-aaaa", []string{"GPU-cccc", "GPU-aaaa"}},
		"beginning of a UUID":   {three, "GPU-bb", []string{"GPU-bbbb"}},
		"the rest are hidden":   {"0 uuid GPU-cccc\n0 memory 1\n", "2", []string{"GPU-cccc"}},
		"all of them":           {three, "3,4,5", []string{"GPU-aaaa", "GPU-bbbb", "GPU-cccc"}},
		"an end":                {three, "1,-1,2", []string{"GPU-bbbb"}},
		"instance":              {divided, "MIG-3333-4444", []string{"MIG-3333-4444"}},
		"instance, old form":    {divided, "MIG-GPU-aaaa/1/0", []string{"MIG-1111-2222"}},
		"instances of an index": {divided, "0", []string{"MIG-1111-2222", "MIG-3333-4444"}},
		"another's UUID":        {three, "GPU-dddd", nil},
		"another's instance":    {divided, "MIG-GPU-aaaa/1/1", nil},
		"one without a number":  {strings.Replace(divided, "0.0 compute_instance 0\n", "", 1), "MIG-GPU-aaaa/1/0", []string{"MIG-1111-2222"}},
		"one without a UUID":    {strings.Replace(divided, "0.0 uuid MIG-1111-2222\n", "", 1), "0", []string{"MIG-3333-4444"}},
		"one that is closed":    {divided + "0.0 open !999\n", "0", []string{"MIG-3333-4444"}},
		"all are closed":        {divided + "0.0 open !999\n0.1 open !999\n", "0", []string{"GPU-aaaa"}},
		"MIG is off":            {strings.Replace(divided, "mig 1", "mig 0", 1), "0", []string{"GPU-aaaa"}},
		"MIG is not known":      {strings.Replace(divided, "mig 1", "mig !999", 1), "0", []string{"GPU-aaaa"}},
	} {
		t.Run(name, func(t *testing.T) {
			given := monitor.DevicesGiven(func(name string) (string, bool) { return c.visible, name == "CUDA_VISIBLE_DEVICES" })
			s := open(t, c.script, false, given)
			read(s, zero)
			var found []string
			for _, d := range s.devices {
				found = append(found, d.uuid)
			}
			if !slices.Equal(found, c.want) {
				t.Errorf("%v, want %v", found, c.want)
			}
		})
	}
	s := open(t, divided, true, monitor.Devices{All: true})
	if read(s, zero); len(s.devices) != 1 || s.devices[0].uuid != "GPU-aaaa" {
		t.Errorf("where the library does not know of MIG: %+v", s.devices)
	}
	s = open(t, strings.Replace(divided, "0.0 instance 1\n", "", 1), false, monitor.Devices{All: true})
	if _, faults := read(s, zero); !slices.Contains(faults, "MIG-1111-2222|3|GPM: not supported by this device") {
		t.Errorf("an instance without a number has the faults %q", faults)
	}
	s = open(t, divided, false, monitor.Devices{All: true})
	first, _ := read(s, zero)
	got, _ := read(s, zero.Add(time.Second))
	if want := (taken{
		"MIG-1111-2222 " + monitor.MemoryReservedBytes: "0", "MIG-1111-2222 " + monitor.MemoryTotalBytes: "40000", "MIG-1111-2222 " + monitor.MemoryUsedBytes: "1000", "MIG-1111-2222 " + monitor.SMActiveShare: "0.5",
		"MIG-3333-4444 " + monitor.MemoryReservedBytes: "0", "MIG-3333-4444 " + monitor.MemoryTotalBytes: "10000", "MIG-3333-4444 " + monitor.MemoryUsedBytes: "500",
	}); !maps.Equal(got, want) {
		t.Errorf("instances have %v", got)
	}
	if first[" "+monitor.SelectedBy] != "2" || first["MIG-1111-2222 "+monitor.InstanceOf] != "1 GPU-aaaa" || first["MIG-3333-4444 "+monitor.DeviceName] != "-1 NVIDIA H100 80GB HBM3 MIG 1g.10gb" || len(first) != 11 {
		t.Errorf("instances are %v", first)
	}
}
