// Package loss turns weighted advantages, which are package credit's, into one
// coefficient per token.
//
// Everything here is a small pure function in float64 that knows neither the
// environment nor the engine. The learner asks the engine for the
// log-probability and the entropy of each token, calls [Coefficients], and
// gives the engine back dL/dlogp and dL/dH:
//
//	L = sum_i Weight_i sum_t loss_it    over sequences i and masked-in tokens t
//
// The weights come from credit.Weights, which sees all sequences of an optimizer
// step at once, so the loss does not depend on how they are cut into
// micro-batches or gradient shards.
//
// The formulas follow the frameworks that the recipe's presets name; the
// numbers in the tests are taken from the frameworks' code as read in August
// 2026.
package loss
