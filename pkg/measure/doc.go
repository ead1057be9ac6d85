// Package measure has the numbers of a run: named functions over its sealed rows,
// each with its unit, the table or figure of a paper that has it, and the files that it reads.
//
// [Rows] is what measures read. [All] lists them: each has the name of the file of
// analysis/ that asks the same in SQL, where there is one, and a test holds the two to
// each other. [Rows.Summary] sums up a run as summary.json has it, and [Rows.Number] is one
// number by its path, such as delta_k, corrections.net or transitions.f2s. Packages
// report, compare, paper, reproduce and efficiency select numbers, average them over
// seeds, set them side by side and draw them; none computes one.
//
// A number that is not known yet is null with a reason, and never 0.
//
// Accuracies are shares in [0, 1]: the mean normalised score over held-out problems and
// the n samples of each (avg@n). Their standard errors are clustered by problem, because
// the samples of one problem are not independent of each other.
package measure
