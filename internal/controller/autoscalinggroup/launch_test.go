package autoscalinggroup

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestFewPlacesAreTriedAfterFailures shows that a group whose configuration multiplies places does not fail in each of
// them, and record that, one after the other: the group waits as a whole after some.
func TestFewPlacesAreTriedAfterFailures(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	c := &Controller{clock: clock}
	v := &view{}
	tried := 0
	for ; tried < 1000 && v.status.RetryAt.IsZero(); tried++ {
		c.recordFailure(v, fmt.Sprint("place ", tried))
	}
	if tried != maxFailedLocations+1 || len(v.status.Zones) != maxFailedLocations {
		t.Errorf("%d places were tried, and %d are recorded", tried, len(v.status.Zones))
	}
	clock.Step(latestRetry)
	c.recordFailure(v, "another")
	if len(v.status.Zones) != 1 {
		t.Errorf("%d places are recorded after their time", len(v.status.Zones))
	}
}
