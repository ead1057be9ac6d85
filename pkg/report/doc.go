// Package report shows what a run did and what it learned, from its sealed
// files alone: a machine-readable summary, a page, and text for a terminal.
// The numbers are those of package measure.
//
// A number that cannot be known yet is null and has a reason in
// [Summary.Missing]; it is never 0. Everything here may be asked of a run
// that is under way.
//
// Accuracies are shares in [0, 1]: the average of normalised
// scores over held-out problems and the n samples of each (avg@n). Standard
// errors are clustered by problem, because the samples of one problem are not
// independent of each other.
package report
