// A libnvidia-ml.so.1 for tests: it says what a script tells it to, so that every
// call of the sampler goes the way that it goes on a machine with GPUs. The script
// is the file that LATHE_NVML_STUB names, read by nvmlInit_v2. A line is
//
//	DEVICE KEY VALUE...
//
// DEVICE is an index from 0, I.J for instance J of device I under MIG, or * for the
// library. Each call takes the next VALUE and begins again behind the last: a
// number, or !STATUS for a call that fails, either with *N for N calls; +STEP for a
// counter that begins at STEP. What has no line is not supported.
//
// The layouts are those of nvml.h. LATHE_OLD leaves out what drivers before Hopper
// did not have.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int status;
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10 };

enum { MOST_KEYS = 48, MOST_VALUES = 512, MOST_DEVICES = 16, MOST_INSTANCES = 8 };

typedef struct { double value; int status, times; char step; } value;
typedef struct { char name[32]; char text[96]; value values[MOST_VALUES]; int count, at, used; double counter; } key;
typedef struct device { int index, instance; struct device *parent, *instances; int instance_count; key keys[MOST_KEYS]; int count; } device;

static device library, *devices;
static int device_count, initialized;

static key *find(device *d, const char *name) {
	for (int i = 0; i < d->count; i++)
		if (!strcmp(d->keys[i].name, name)) return &d->keys[i];
	return NULL;
}

static device *at(const char *name) {
	int index = 0, instance = -1;
	if (!strcmp(name, "*")) return &library;
	sscanf(name, "%d.%d", &index, &instance);
	if (index < 0 || index >= MOST_DEVICES || instance >= MOST_INSTANCES) return NULL;
	if (index >= device_count) device_count = index + 1;
	device *d = &devices[index];
	d->index = index, d->instance = -1;
	if (instance < 0) return d;
	if (!d->instances) d->instances = calloc(MOST_INSTANCES, sizeof(device));
	if (instance >= d->instance_count) d->instance_count = instance + 1;
	device *i = &d->instances[instance];
	i->index = index, i->instance = instance, i->parent = d;
	return i;
}

static void parse(FILE *file) {
	static char line[1 << 16];
	while (fgets(line, sizeof line, file)) {
		char *rest, *name = strtok_r(line, " \t\n", &rest), *word = name ? strtok_r(NULL, " \t\n", &rest) : NULL;
		if (!word || *name == '#') continue;
		device *d = at(name);
		if (!d || d->count == MOST_KEYS) continue;
		key *k = &d->keys[d->count++];
		snprintf(k->name, sizeof k->name, "%s", word);
		if (!strcmp(k->name, "uuid") || !strcmp(k->name, "name") || !strcmp(k->name, "driver")) {
			char *text = strtok_r(NULL, "\n", &rest);
			snprintf(k->text, sizeof k->text, "%s", text ? text : "");
			continue;
		}
		while ((word = strtok_r(NULL, " \t\n", &rest)) && k->count < MOST_VALUES) {
			value *v = &k->values[k->count++];
			char *times = strchr(word, '*');
			v->times = times ? atoi(times + 1) : 1;
			v->step = *word == '+';
			if (*word == '!') v->status = atoi(word + 1);
			else v->value = strtod(word, NULL);
		}
	}
}

static status next(device *d, const char *name, double *to) {
	if (!initialized) return UNINITIALIZED;
	key *lost = find(d->parent ? d->parent : d, "lost"), *k = find(d, name);
	if (lost && lost->count && strcmp(name, "lost")) {
		double ignored;
		if (!strcmp(name, "memory")) lost->counter = next(d->parent ? d->parent : d, "lost", &ignored);
		if (lost->counter != 0) return (status)lost->counter;
	}
	if (!k || !k->count) return UNSUPPORTED;
	value *v = &k->values[k->at];
	if (v->status) *to = 0;
	else if (v->step) *to = k->counter += v->value;
	else *to = v->value;
	if (++k->used >= v->times && !v->step) k->used = 0, k->at = (k->at + 1) % k->count;
	return v->status;
}

static status text(device *d, const char *name, char *to, unsigned size) {
	key *k = find(d, name);
	if (!initialized) return UNINITIALIZED;
	if (!k) return UNSUPPORTED;
	snprintf(to, size, "%s", k->text);
	return OK;
}

#define NUMBER(call, name, type) \
	status call(device *d, type *to) { double v; status s = next(d, name, &v); if (s == OK) *to = (type)v; return s; }

status nvmlShutdown(void) { initialized = 0; return OK; }

status nvmlInit_v2(void) {
	static int opened;
	static char before[4096]; // a library that a process has called stays, with its variables
	const char *path = getenv("LATHE_NVML_STUB");
	if (path && strcmp(path, before)) opened = 0, snprintf(before, sizeof before, "%s", path);
	FILE *file = path ? fopen(path, "r") : NULL;
	free(devices), devices = calloc(MOST_DEVICES, sizeof(device));
	memset(&library, 0, sizeof library);
	device_count = 0;
	if (file) parse(file), fclose(file);
	initialized = 1;
	key *k = find(&library, "init");
	double v;
	status s = OK;
	if (k && k->count) {
		k->at = opened++ % k->count;
		s = next(&library, "init", &v);
	}
	initialized = s == OK;
	return s;
}

const char *nvmlErrorString(status s) { (void)s; return "a status of the stub"; }
status nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(&library, "driver", to, size); }

status nvmlDeviceGetCount_v2(unsigned *to) {
	double v;
	key *k = find(&library, "count");
	*to = device_count;
	if (!initialized) return UNINITIALIZED;
	if (!k) return OK;
	status s = next(&library, "count", &v);
	if (s == OK) *to = (unsigned)v;
	return s;
}

status nvmlDeviceGetHandleByIndex_v2(unsigned index, device **to) {
	double v;
	if (!initialized) return UNINITIALIZED;
	if (index >= (unsigned)device_count) return INVALID;
	*to = &devices[index];
	return find(*to, "open") ? next(*to, "open", &v) : OK;
}

#ifndef LATHE_OLD
status nvmlDeviceGetHandleByUUID(const char *uuid, device **to) {
	for (int i = 0; i < device_count; i++) {
		key *k = find(&devices[i], "uuid");
		*to = &devices[i];
		if (k && !strcmp(k->text, uuid)) return OK;
		for (int j = 0; j < devices[i].instance_count; j++) {
			k = find(&devices[i].instances[j], "uuid");
			*to = &devices[i].instances[j];
			if (k && !strcmp(k->text, uuid)) return OK;
		}
	}
	return NOT_FOUND;
}
#endif

status nvmlDeviceGetUUID(device *d, char *to, unsigned size) { return text(d, "uuid", to, size); }
status nvmlDeviceGetName(device *d, char *to, unsigned size) { return text(d, "name", to, size); }
status nvmlDeviceGetIndex(device *d, unsigned *to) { *to = d->index; return OK; }

status nvmlDeviceGetUtilizationRates(device *d, struct { unsigned gpu, memory; } *to) {
	double gpu, memory = 0;
	status s = next(d, "utilization", &gpu);
	if (s != OK) return s;
	next(d, "memory_busy", &memory);
	to->gpu = (unsigned)gpu, to->memory = (unsigned)memory;
	return OK;
}

status nvmlDeviceGetMemoryInfo(device *d, struct { unsigned long long total, free, used; } *to) {
	double used, total = 0;
	status s = next(d, "memory", &used);
	if (s != OK) return s;
	next(d, "memory_total", &total);
	to->total = (unsigned long long)total, to->used = (unsigned long long)used, to->free = to->total - to->used;
	return OK;
}

#ifndef LATHE_OLD
status nvmlDeviceGetMemoryInfo_v2(device *d, struct { unsigned version; unsigned long long total, reserved, free, used; } *to) {
	double used, total = 0, reserved = 0;
	status s = next(d, "memory", &used);
	if (s != OK) return s;
	next(d, "memory_total", &total);
	next(d, "memory_reserved", &reserved);
	to->total = (unsigned long long)total, to->used = (unsigned long long)used, to->reserved = (unsigned long long)reserved;
	to->free = to->total - to->used;
	return OK;
}
#endif

NUMBER(nvmlDeviceGetPowerUsage, "power", unsigned)
#ifndef LATHE_OLD
NUMBER(nvmlDeviceGetTotalEnergyConsumption, "energy", unsigned long long)
#endif
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit", unsigned)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle", unsigned long long)
NUMBER(nvmlDeviceGetPcieReplayCounter, "replays", unsigned)

status nvmlDeviceGetTemperature(device *d, int sensor, unsigned *to) {
	double v;
	(void)sensor;
	status s = next(d, "temperature", &v);
	if (s == OK) *to = (unsigned)v;
	return s;
}

status nvmlDeviceGetClockInfo(device *d, int clock, unsigned *to) {
	double v;
	status s = next(d, clock == 1 ? "clock" : "memory_clock", &v);
	if (s == OK) *to = (unsigned)v;
	return s;
}

status nvmlDeviceGetMaxClockInfo(device *d, int clock, unsigned *to) {
	double v;
	(void)clock;
	status s = next(d, "clock_max", &v);
	if (s == OK) *to = (unsigned)v;
	return s;
}

status nvmlDeviceGetViolationStatus(device *d, int policy, struct { unsigned long long reference, violation; } *to) {
	double v;
	status s = next(d, policy == 0 ? "throttled_power" : "throttled_thermal", &v);
	if (s == OK) to->reference = 0, to->violation = (unsigned long long)v;
	return s;
}

status nvmlDeviceGetPcieThroughput(device *d, int counter, unsigned *to) {
	double v;
	status s = next(d, counter ? "pcie_rx" : "pcie_tx", &v);
	if (s == OK) *to = (unsigned)v;
	return s;
}

status nvmlDeviceGetTotalEccErrors(device *d, int type, int since, unsigned long long *to) {
	double v;
	(void)since;
	status s = next(d, type ? "ecc_uncorrected" : "ecc_corrected", &v);
	if (s == OK) *to = (unsigned long long)v;
	return s;
}

status nvmlDeviceGetRemappedRows(device *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
	double v;
	status s = next(d, "remapped", &v);
	*corrected = *pending = *failed = 0;
	if (s == OK) *uncorrected = (unsigned)v;
	return s;
}

status nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *count, struct { unsigned pid; unsigned long long bytes; unsigned instance, compute; } *to) {
	double v;
	status s = next(d, "processes", &v);
	if (s != OK) return s;
	if (*count < (unsigned)v) return *count = (unsigned)v, 7; // insufficient size
	*count = (unsigned)v;
	for (unsigned i = 0; i < *count; i++) {
		double pid = 1000 + i, bytes = 0;
		next(d, "pid", &pid);
		status known = next(d, "process_memory", &bytes);
		to[i].pid = (unsigned)pid, to[i].instance = to[i].compute = ~0u;
		to[i].bytes = known == OK ? (unsigned long long)bytes : ~0ull; // the driver's word for not known
	}
	return OK;
}

// The driver samples six times a second and says that it has eight; a call takes six values of "samples".
status nvmlDeviceGetSamples(device *d, int type, unsigned long long since, int *kind, unsigned *count, struct { unsigned long long time; union { unsigned number; double other; } value; } *to) {
	double v;
	key *k = find(d, "samples");
	(void)type;
	if (!k || !initialized) return initialized ? UNSUPPORTED : UNINITIALIZED;
	*kind = 1;
	if (!to) return *count = 8, OK;
	for (*count = 0; *count < 6; ++*count) {
		status s = next(d, "samples", &v);
		if (s != OK) return s;
		to[*count].time = since + 166667 * (*count + 1), to[*count].value.number = (unsigned)v;
	}
	return OK;
}

#ifndef LATHE_OLD
// Two samples of each of two processes, of the values of "pid" and "process_sm".
status nvmlDeviceGetProcessUtilization(device *d, struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } *to, unsigned *count, unsigned long long since) {
	double v;
	key *pid = find(d, "pid");
	if (!find(d, "process_sm") || !pid) return UNSUPPORTED;
	if (!to) return *count = 5, 7;
	for (*count = 0; *count < 4; ++*count) {
		status s = next(d, "process_sm", &v);
		if (s != OK) return s;
		to[*count].pid = (unsigned)pid->values[*count % 2 % pid->count].value, to[*count].time = since + 500000 * (*count + 1);
		to[*count].sm = (unsigned)v, to[*count].memory = (unsigned)v / 2;
	}
	return OK;
}

#endif

status nvmlDeviceGetAccountingStats(device *d, unsigned pid, struct { unsigned gpu, memory; unsigned long long most, time, start; unsigned running, reserved[5]; } *to) {
	double v, most = 0;
	(void)pid;
	status s = next(d, "life_utilization", &v);
	if (s != OK) return s;
	next(d, "life_memory", &most);
	to->gpu = (unsigned)v, to->most = (unsigned long long)most;
	return OK;
}

#ifndef LATHE_OLD
status nvmlDeviceGetMigMode(device *d, unsigned *current, unsigned *pending) {
	double on;
	status s = next(d, "mig", &on);
	if (s == OK) *current = *pending = on > 0;
	return s;
}

status nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *to) { *to = d->instance_count; return OK; }

status nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **to) {
	if (index >= (unsigned)d->instance_count) return NOT_FOUND;
	double v;
	*to = &d->instances[index];
	return find(*to, "open") ? next(*to, "open", &v) : OK;
}

NUMBER(nvmlDeviceGetGpuInstanceId, "instance", unsigned)
#endif
NUMBER(nvmlDeviceGetComputeInstanceId, "compute_instance", unsigned)

#ifndef LATHE_OLD
status nvmlEventSetCreate(device **to) { double v; *to = &library; return find(&library, "events") ? next(&library, "events", &v) : OK; }
#endif
status nvmlEventSetFree(device *set) { (void)set; return OK; }
status nvmlDeviceRegisterEvents(device *d, unsigned long long types, device *set) { (void)types, (void)set; return find(d, "xid") ? OK : UNSUPPORTED; }

status nvmlEventSetWait_v2(device *set, struct { device *device; unsigned long long type, data; unsigned instance, compute; } *to, unsigned timeout) {
	(void)set, (void)timeout;
	static int turn;
	for (int i = 0; i < device_count; i++) {
		device *d = &devices[(i + turn) % device_count];
		double xid = 0;
		if (find(d, "xid") && next(d, "xid", &xid) == OK && xid > 0) {
			turn++;
			to->device = d, to->type = 8, to->data = (unsigned long long)xid, to->instance = to->compute = ~0u;
			return OK;
		}
	}
	return TIMEOUT;
}

#ifndef LATHE_OLD
// A sample is the counters of GPM: what they say is scripted for the later one.
typedef struct { device *device; } sample;

status nvmlGpmQueryDeviceSupport(device *d, struct { unsigned version, supported; } *to) { to->supported = find(d, "sm_active") != NULL; return OK; }
status nvmlGpmSampleAlloc(sample **to) { *to = calloc(1, sizeof(sample)); return OK; }
status nvmlGpmSampleFree(sample *s) { free(s); return OK; }
status nvmlGpmSampleGet(device *d, sample *s) { double v; s->device = d; return find(d, "gpm") ? next(d, "gpm", &v) : initialized ? OK : UNINITIALIZED; }

status nvmlGpmMigSampleGet(device *d, unsigned instance, sample *s) {
	for (int j = 0; j < d->instance_count; j++) {
		key *k = find(&d->instances[j], "instance");
		if (k && k->count && (unsigned)k->values[0].value == instance) return s->device = &d->instances[j], OK;
	}
	return NOT_FOUND;
}

typedef struct { unsigned id; status status; double value; char *names[3]; } metric;

status nvmlGpmMetricsGet(struct { unsigned version, count; sample *first, *second; metric metrics[1]; } *get) {
	static const struct { unsigned id; const char *name; } known[] = {
		{2, "sm_active"}, {3, "sm_occupancy"}, {5, "tensor"}, {10, "dram"}, {11, "fp64"}, {12, "fp32"}, {13, "fp16"}, {20, "gpm_pcie_tx"}, {21, "gpm_pcie_rx"}, {60, "nvlink_rx"}, {61, "nvlink_tx"},
	};
	for (unsigned i = 0; i < get->count; i++) {
		get->metrics[i].status = UNSUPPORTED;
		for (unsigned j = 0; j < sizeof known / sizeof *known; j++)
			if (known[j].id == get->metrics[i].id) get->metrics[i].status = next(get->second->device, known[j].name, &get->metrics[i].value);
	}
	return OK;
}
#endif
