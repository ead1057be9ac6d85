package cuda

import (
	"errors"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// What depends on the node and the moment is told apart from mistakes: a task that ends so
// is tried again elsewhere.
func TestStatusError(t *testing.T) {
	t.Parallel()
	for s, c := range map[status]struct {
		code   int
		device bool
	}{
		statusOK: {exitcode.OK, false}, statusArgument: {exitcode.Bug, false}, statusNoDriver: {exitcode.Unavailable, true},
		statusNoDevice: {exitcode.Unavailable, true}, statusMemory: {exitcode.Unavailable, true}, statusDevice: {exitcode.Failed, true},
	} {
		err := statusError("opening", s, "why")
		var device *policy.DeviceError
		if exitcode.Code(err) != c.code || errors.As(err, &device) != c.device {
			t.Errorf("status %d: code %d, of the device %v: %v", s, exitcode.Code(err), errors.As(err, &device), err)
		}
	}
}
