package loss

// NormTokens returns the divisor of seq_mean_token_sum_norm for an optimizer
// step: with loss.norm_padded the longest response of the step, else
// loss.norm_tokens, else the limit on new tokens.
func NormTokens(spec Loss, lengths []int, maxNewTokens int) int {
	switch {
	case spec.NormPadded:
		longest := 0
		for _, n := range lengths {
			longest = max(longest, n)
		}
		return longest
	case spec.NormTokens > 0:
		return spec.NormTokens
	}
	return maxNewTokens
}
