package podidentity

import (
	"encoding/json"
	"fmt"

	"github.com/coracle-eks/coracle/internal/document"
)

// checkPod returns an error for a pod that upstream's code takes too long to decode, or to change.
func checkPod(object []byte) error {
	if err := document.CheckQuantities(object); err != nil {
		return fmt.Errorf("the pod is not read: %w", err)
	}
	if n := countContainers(object); n > maxContainers {
		return fmt.Errorf("the pod has %d containers, and those with IAM roles may have %d", n, maxContainers)
	}
	return nil
}

// countContainers returns the number of containers of a pod.
func countContainers(object []byte) int {
	var pod struct {
		Spec struct{ Containers, InitContainers []struct{} }
	}
	// What cannot be read is refused by upstream's code.
	_ = json.Unmarshal(object, &pod)
	return len(pod.Spec.Containers) + len(pod.Spec.InitContainers)
}
