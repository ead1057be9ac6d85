// Package run is the folder of everything that makes a recipe into a run:
//
//   - graph: what a run is made of, a pure function of the recipe;
//   - rundir: the folder of a run, how it is made and opened;
//   - closing: with which shards an iteration is closed;
//   - survey: what is missing, and what of it can be made now;
//   - worker: one task, run or replayed;
//   - drive and advance: what is ready is started, in the foreground or through
//     Slurm;
//   - status, verify, prune, explain: what operators ask for.
//
// Everything is decided from sealed files. A process that looks at the folder of
// a run and knows the recipe knows all there is to know. The tests here drive
// whole runs.
package run
