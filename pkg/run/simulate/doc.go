// Package simulate runs the tasks of a run on a simulated cluster in simulated time,
// to predict what the run will take. What is started when is decided by the code that
// decides it in a run: the graph of the recipe, the survey of what is missing, the
// rules by which gates follow arrays, and the plan by which Slurm takes an array.
// Simulated are the rest: how long tasks take, where there is room for them, how long
// they and gates wait in the queue, and what fails or is preempted.
//
// What is left out: tasks of other users but for the wait in the queue, the memory of
// nodes, what a file system gives to many tasks at once, pruning, and segments that
// wait for a batch (schedule.batch_segments). A gate takes no core, and arrays start in
// the order in which they were submitted. Cores and GPUs are two pools: a task that
// asks for GPUs takes none of the nodes without.
package simulate
