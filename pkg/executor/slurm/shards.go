package slurm

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Shards are those of the tasks of a job, in their order. As JSON they are ranges of
// shards that follow one another, such as "0-99,105"; a list of numbers is read too.
type Shards []int

// MarshalJSON writes ranges.
func (s Shards) MarshalJSON() ([]byte, error) {
	var ranges []string
	for first := 0; first < len(s); {
		last := first
		for last+1 < len(s) && s[last+1] == s[last]+1 {
			last++
		}
		if first == last {
			ranges = append(ranges, fmt.Sprint(s[first]))
		} else {
			ranges = append(ranges, fmt.Sprintf("%d-%d", s[first], s[last]))
		}
		first = last + 1
	}
	return json.Marshal(strings.Join(ranges, ","))
}

// UnmarshalJSON reads ranges, or a list of numbers.
func (s *Shards) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*[]int)(s)) == nil {
		return nil
	}
	var text string
	err := json.Unmarshal(data, &text)
	if *s = nil; err != nil || text == "" {
		return err
	}
	*s, err = parseIndices(text)
	return err
}
